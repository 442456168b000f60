# Compiles SOURCE with FLAGS. OUTCOME refused: the compiler must report the library's #error. OUTCOME harmless: the
# program must print what it prints without FLAGS.
file(MAKE_DIRECTORY ${FOLDER})

function(build_and_run name result)
  execute_process(COMMAND ${COMPILE} -O1 -DEIGENFORMER_NO_RUNTIME_CHOICE ${ARGN} ${SOURCE} -o ${FOLDER}/${name}
    RESULT_VARIABLE failed ERROR_VARIABLE text)
  if(failed)
    message(FATAL_ERROR "${name} doesn't compile:\n${text}")
  endif()
  execute_process(COMMAND ${FOLDER}/${name} OUTPUT_VARIABLE output RESULT_VARIABLE failed)
  if(failed OR output STREQUAL "")
    message(FATAL_ERROR "${name} fails: ${output}")
  endif()
  set(${result} "${output}" PARENT_SCOPE)
endfunction()

if(OUTCOME STREQUAL "refused")
  execute_process(COMMAND ${COMPILE} -fsyntax-only ${FLAGS} ${SOURCE} RESULT_VARIABLE failed ERROR_VARIABLE text)
  if(NOT failed OR NOT text MATCHES "ffast-math or a part of it")
    message(FATAL_ERROR "not refused:\n${text}")
  endif()
else()
  build_and_run(plain expected)
  build_and_run(flagged found ${FLAGS})
  if(NOT found STREQUAL expected)
    message(FATAL_ERROR "${FLAGS} give ${found} instead of ${expected}")
  endif()
endif()

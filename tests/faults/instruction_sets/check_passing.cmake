# Objects of the library that cross from a part compiled with MAKER's flags to one compiled with USER's: an argument must fail
# at link time, with the tags of both parts to be seen; a result must either fail likewise or work.
#   cmake -D COMPILE=<command> -D MAKER=<flags> -D USER=<flags> -D SOURCE=<folder> -D FOLDER=<folder> -P check_passing.cmake
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${FOLDER})
execute_process(COMMAND ${COMPILE} ${MAKER} -c ${SOURCE}/maker.cpp -o ${FOLDER}/maker.o COMMAND_ERROR_IS_FATAL ANY)
foreach(kind argument result)
  execute_process(COMMAND ${COMPILE} ${USER} -c ${SOURCE}/${kind}.cpp -o ${FOLDER}/${kind}.o COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${COMPILE} ${FOLDER}/maker.o ${FOLDER}/${kind}.o -o ${FOLDER}/${kind}
    RESULT_VARIABLE failed OUTPUT_VARIABLE messages ERROR_VARIABLE messages)
  if(failed)
    if(NOT messages MATCHES "undefined" OR NOT messages MATCHES "eigenformer::v[0-9_]+(avx2|sse)[a-z0-9_]*throws")
      message(FATAL_ERROR "${kind}: the linker's message does not show the tag:\n${messages}")
    endif()
  elseif(kind STREQUAL "argument")
    message(FATAL_ERROR "an argument of another instruction set's type links")
  else()
    execute_process(COMMAND ${FOLDER}/${kind} COMMAND_ERROR_IS_FATAL ANY)
  endif()
  # With the same flags on both sides it links and works: the program itself isn't to blame.
  execute_process(COMMAND ${COMPILE} ${MAKER} -c ${SOURCE}/${kind}.cpp -o ${FOLDER}/same.o COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${COMPILE} ${FOLDER}/maker.o ${FOLDER}/same.o -o ${FOLDER}/same COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${FOLDER}/same COMMAND_ERROR_IS_FATAL ANY)
endforeach()

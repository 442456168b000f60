# Objects of the library that cross from a part compiled with MAKER's flags to one compiled with
# USER's: both an argument and a result must fail at link time, with the tag in the message.
#   cmake -D COMPILE=<command> -D MAKER=<flags> -D USER=<flags> -D SOURCE=<folder> -D FOLDER=<folder>
#     -P check_passing.cmake
cmake_minimum_required(VERSION 3.25)
file(MAKE_DIRECTORY ${FOLDER})
set(tag "(eigenformer::|abi:)v[0-9_]+(avx2|sse)[a-z0-9_]*throws")

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

run(${COMPILE} ${MAKER} -c ${SOURCE}/maker.cpp -o ${FOLDER}/maker.o)
foreach(kind argument result)
  set(source ${SOURCE}/${kind}.cpp)
  set(program ${FOLDER}/${kind})
  run(${COMPILE} ${USER} -c ${source} -o ${program}.o)
  execute_process(COMMAND ${COMPILE} ${FOLDER}/maker.o ${program}.o -o ${program}
    RESULT_VARIABLE failed OUTPUT_VARIABLE messages ERROR_VARIABLE messages)
  if(failed)
    if(NOT messages MATCHES "undefined" OR NOT messages MATCHES "${tag}")
      message(FATAL_ERROR "${kind}: the linker's message does not show the tag:\n${messages}")
    endif()
  else()
    message(FATAL_ERROR "${kind}: a type of another instruction set links")
  endif()
  # With the same flags on both sides it links and works: the program itself isn't to blame.
  run(${COMPILE} ${MAKER} -c ${source} -o ${program}_same.o)
  run(${COMPILE} ${FOLDER}/maker.o ${program}_same.o -o ${program}_same)
  run(${program}_same)
endforeach()

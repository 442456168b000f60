# eigenformer.hpp needs Eigen/Core and the standard library alone.
#   cmake -D DEPENDENCIES=<command> -D HEADER=<eigenformer.hpp> -P check_dependencies.cmake
cmake_minimum_required(VERSION 3.25)
execute_process(COMMAND ${DEPENDENCIES} ${HEADER} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^ \n\\]+" files "${text}")
if(NOT text MATCHES "/Eigen/Core")
  message(FATAL_ERROR "Eigen/Core was not found: is the check broken?")
endif()
set(unwanted ${files})
list(FILTER unwanted INCLUDE REGEX
  "/nlohmann/|/unsupported/|/Eigen/[A-Z][A-Za-z]+$|/iostream$|/regex$|/eigenformer/io/")
list(FILTER unwanted EXCLUDE REGEX "/Eigen/(Core|Version)$")
if(unwanted)
  list(JOIN unwanted "\n  " unwanted)
  message(FATAL_ERROR "eigenformer.hpp brings in:\n  ${unwanted}")
endif()

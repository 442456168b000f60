# eigenformer_warnings(<target>): warnings for the project's own programs, never for users' targets.
#
# They are errors with the compilers that the project is developed with; a newer compiler may know new warnings, which
# shall not stop anyone from building the tests.
function(eigenformer_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
  set(gcc_below 13)
  set(clang_below 15)
  if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS gcc_below)
    OR (CMAKE_CXX_COMPILER_ID STREQUAL "Clang"
      AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS clang_below))
    set_target_properties(${target} PROPERTIES COMPILE_WARNING_AS_ERROR ON)
  endif()
endfunction()

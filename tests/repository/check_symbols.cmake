# Headers alone must give no strong symbol: each function inline, a template or constexpr, each variable inline.
#   cmake -D NM=<nm> -D OBJECTS=<file with one path per line> -P check_symbols.cmake
cmake_minimum_required(VERSION 3.25)
file(STRINGS ${OBJECTS} objects)
list(FILTER objects EXCLUDE REGEX "/cmake_pch\\.")
set(strong "")
foreach(object IN LISTS objects)
  execute_process(COMMAND ${NM} --demangle --defined-only --extern-only ${object}
    OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
  # Address, type, name. Weak: V W v w; unique, as the linker sees to it: u.
  string(REGEX MATCHALL "[0-9a-f]+ [A-U] [^\n]+" found "${symbols}")
  list(APPEND strong ${found})
endforeach()
list(LENGTH objects count)
if(count LESS 2)
  message(FATAL_ERROR "no objects to look at: ${OBJECTS}")
endif()
if(strong)
  list(REMOVE_DUPLICATES strong)
  list(JOIN strong "\n  " strong)
  message(FATAL_ERROR "defined in every translation unit that includes the header:\n  ${strong}")
endif()
message(STATUS "${count} objects without strong symbols")

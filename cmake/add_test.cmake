# eigenformer_add_test(<name> <source>...): one GoogleTest program; each of its tests becomes a test of ctest.
#
# -O1 whatever the build type: Eigen without any optimisation makes tests crawl, -O3 makes the build crawl.
# Tests whose full name contains "Timing" compare durations and run alone. Programs of many sources read the headers from
# a precompiled one, with the modules of eigenformer::compiled; after OWN_MODULES they compile these themselves, for checks
# inside them. A source that sets a macro of the library or of Eigen reads the headers itself.
find_package(GTest REQUIRED)
include(GoogleTest)

get_target_property(eigenformer_headers_but_compiled eigenformer HEADER_SET)
list(FILTER eigenformer_headers_but_compiled INCLUDE REGEX "hpp$")
list(FILTER eigenformer_headers_but_compiled EXCLUDE REGEX "/(eigenformer|compiled)\\.hpp$")

function(eigenformer_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_MODULES" "" "")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE eigenformer::io eigenformer::compiled GTest::gtest GTest::gtest_main)
  # #include "tests/reference/..." and the folder of the golden files.
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE EIGENFORMER_TESTS="${PROJECT_SOURCE_DIR}/tests")
  eigenformer_warnings(${name})
  target_compile_options(${name} PRIVATE -O1)
  list(LENGTH sources count)
  if(count GREATER 4)
    target_precompile_headers(${name} PRIVATE <gtest/gtest.h> ${eigenformer_headers_but_compiled})
    if(NOT arg_OWN_MODULES)
      target_precompile_headers(${name} PRIVATE <eigenformer/models/compiled.hpp>)
    endif()
    foreach(source IN LISTS sources)
      file(STRINGS ${source} macros REGEX "^#(define|undef) EIGEN")
      if(macros)
        set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
      endif()
    endforeach()
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_FILTER "-*Timing*"
    TEST_LIST ${name}_tests)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_FILTER "*Timing*"
    TEST_LIST ${name}_timing_tests PROPERTIES RUN_SERIAL TRUE)
endfunction()

# eigenformer_include_flags(<variable>): flags for tests that call a compiler themselves, as a user would give them: -I for
# our headers, -isystem for the others.
function(eigenformer_include_flags result)
  set(flags -I${PROJECT_SOURCE_DIR}/include)
  foreach(dependency Eigen3::Eigen nlohmann_json::nlohmann_json)
    get_target_property(folders ${dependency} INTERFACE_INCLUDE_DIRECTORIES)
    # -isystem /usr/include would hide the standard library's own headers of the same name.
    list(REMOVE_ITEM folders ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES})
    list(TRANSFORM folders PREPEND -isystem)
    list(APPEND flags ${folders})
  endforeach()
  set(${result} ${flags} PARENT_SCOPE)
endfunction()

# eigenformer_add_test(<name> <source>... [HEADERS <target>]): one GoogleTest program; each of its tests becomes a test of
# ctest.
#
# Tests are compiled with -O0 in every build type, since optimising them takes longer than running them: what takes time is
# in eigenformer::compiled. Tests whose full name contains "Timing" compare durations and run alone. A program of many
# sources shares a precompiled header with others, that of the target after HEADERS; a source that sets a macro of the
# library or of Eigen reads the headers itself.
find_package(GTest REQUIRED)
include(GoogleTest)

function(eigenformer_test_settings target)
  target_link_libraries(${target} PRIVATE eigenformer::io eigenformer::compiled GTest::gtest GTest::gtest_main)
  # #include "tests/reference/..." and the folder of the golden files.
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${target} PRIVATE EIGENFORMER_TESTS="${PROJECT_SOURCE_DIR}/tests")
  eigenformer_warnings(${target})
  target_compile_options(${target} PRIVATE -O0)
endfunction()

# eigenformer_add_test_headers(<name> [<header>...]): a precompiled header of GoogleTest, the library and these, for
# programs with the same flags.
function(eigenformer_add_test_headers name)
  get_target_property(headers eigenformer HEADER_SET)
  list(FILTER headers INCLUDE REGEX "hpp$")
  list(FILTER headers EXCLUDE REGEX "/(eigenformer|compiled)\\.hpp$")
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "")
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  eigenformer_test_settings(${name})
  target_precompile_headers(${name} PRIVATE <gtest/gtest.h> ${headers} ${ARGN})
endfunction()

# With the modules of eigenformer::compiled.
eigenformer_add_test_headers(eigenformer_test_headers <eigenformer/models/compiled.hpp>)

# Assertions stay on in Release, with Eigen's own check for heap allocations, which is one; modules are compiled so too.
function(eigenformer_check_allocations target)
  target_compile_definitions(${target} PRIVATE EIGEN_RUNTIME_NO_MALLOC)
  target_compile_options(${target} PRIVATE -UNDEBUG -O1)
endfunction()
eigenformer_add_test_headers(eigenformer_checked_headers)
eigenformer_check_allocations(eigenformer_checked_headers)

function(eigenformer_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADERS" "")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  add_executable(${name} ${sources})
  eigenformer_test_settings(${name})
  list(LENGTH sources count)
  if(count GREATER 2)
    if(NOT arg_HEADERS)
      set(arg_HEADERS eigenformer_test_headers)
    endif()
    target_precompile_headers(${name} REUSE_FROM ${arg_HEADERS})
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

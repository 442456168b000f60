# eigenformer_add_test(<name> <source>... [HEADERS <target>]): one GoogleTest program, run by ctest in a few shards.
#
# Tests are compiled with -O0 in every build type, since optimising them takes longer than running them: what takes time is
# in eigenformer::compiled. A program of many sources shares a precompiled header with others, that of the target after
# HEADERS; a source that sets a macro of the library or of Eigen reads the headers itself.
#
# Four sources at a time are compiled as one, which halves the time: what they instantiate is the same. So each has its
# helpers and tests in a namespace of its own name. While working on one test, -DEIGENFORMER_TESTS_TOGETHER=OFF is quicker.
find_package(GTest REQUIRED)
option(EIGENFORMER_TESTS_TOGETHER "Compile several sources of a test program as one" ON)

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

# Assertions stay on in Release, with Eigen's own check for heap allocations, which is one; modules are compiled so too,
# once for all tests: eigenformer_checked_modules.
function(eigenformer_check_allocations target)
  target_compile_definitions(${target} PRIVATE EIGEN_RUNTIME_NO_MALLOC)
  target_compile_options(${target} PRIVATE -UNDEBUG)
endfunction()
add_library(eigenformer_checked_modules STATIC ${PROJECT_SOURCE_DIR}/cmake/compiled_modules.cpp)
target_link_libraries(eigenformer_checked_modules PRIVATE eigenformer::eigenformer)
target_compile_options(eigenformer_checked_modules PRIVATE -O1)
eigenformer_check_allocations(eigenformer_checked_modules)
eigenformer_add_test_headers(eigenformer_checked_headers <eigenformer/models/compiled.hpp>)
eigenformer_check_allocations(eigenformer_checked_headers)

function(eigenformer_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "HEADERS" "")
  set(sources ${arg_UNPARSED_ARGUMENTS})
  add_executable(${name} ${sources})
  if(arg_HEADERS STREQUAL "eigenformer_checked_headers")
    # Before eigenformer::compiled, of which only the vector code is taken then.
    target_link_libraries(${name} PRIVATE eigenformer_checked_modules)
  endif()
  eigenformer_test_settings(${name})
  list(LENGTH sources count)
  if(count GREATER 2 AND NOT arg_HEADERS)
    set(arg_HEADERS eigenformer_test_headers)
  endif()
  if(arg_HEADERS)
    target_precompile_headers(${name} REUSE_FROM ${arg_HEADERS})
    set_target_properties(${name} PROPERTIES UNITY_BUILD ${EIGENFORMER_TESTS_TOGETHER} UNITY_BUILD_BATCH_SIZE 4)
    foreach(source IN LISTS sources)
      file(STRINGS ${source} macros REGEX "^#(define|undef) EIGEN")
      if(macros)
        set_source_files_properties(${source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON
          SKIP_UNITY_BUILD_INCLUSION ON)
      endif()
    endforeach()
  endif()
  # A few processes for each program, not one for each test.
  list(LENGTH sources count)
  math(EXPR last "(${count} - 1) / 8")
  math(EXPR shards "${last} + 1")
  foreach(shard RANGE ${last})
    add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}.${shard} PROPERTIES
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}")
  endforeach()
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

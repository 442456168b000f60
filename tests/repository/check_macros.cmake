# Macros: ours all have the prefix EIGENFORMER_, and those that other libraries define break no header.
#   cmake -D COMPILE=<command> -D INCLUDE=<folder> -D FOLDER=<scratch> -P check_macros.cmake
cmake_minimum_required(VERSION 3.25)

# What our headers include comes first in all that follows: it is not ours to answer for.
set(foreign_includes "")
set(our_includes "")
file(GLOB_RECURSE headers RELATIVE ${INCLUDE} ${INCLUDE}/eigenformer/*.hpp)
foreach(header IN LISTS headers)
  string(APPEND our_includes "#include <${header}>\n")
  file(STRINGS ${INCLUDE}/${header} lines REGEX "^#include <[^>]+>")
  list(APPEND foreign_includes ${lines})
endforeach()
# Intrinsics exist on some machines only; Eigen/Core includes them there.
list(FILTER foreign_includes EXCLUDE REGEX "<eigenformer/|intrin\\.h>|arm_")
list(REMOVE_DUPLICATES foreign_includes)
list(JOIN foreign_includes "\n" foreign_includes)
string(APPEND foreign_includes "
#if defined(__x86_64__)
#include <immintrin.h>
#endif
")

# ------------------------------------------------------------------ our macros
file(WRITE ${FOLDER}/before.cpp "${foreign_includes}")
file(WRITE ${FOLDER}/after.cpp "${foreign_includes}${our_includes}")
foreach(side before after)
  execute_process(COMMAND ${COMPILE} -dM -E ${FOLDER}/${side}.cpp
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "#define [A-Za-z_0-9]+" macros_${side} "${text}")
endforeach()
set(ours ${macros_after})
list(REMOVE_ITEM ours ${macros_before})
set(unprefixed ${ours})
list(FILTER unprefixed EXCLUDE REGEX "^#define EIGENFORMER_")
if(NOT "#define EIGENFORMER_VERSION_MAJOR" IN_LIST ours)
  message(FATAL_ERROR "not even EIGENFORMER_VERSION_MAJOR was found: is the check broken?")
endif()
if(unprefixed)
  list(JOIN unprefixed "\n  " unprefixed)
  message(FATAL_ERROR "macros without our prefix:\n  ${unprefixed}")
endif()

# ------------------------------------------------------------------ other libraries' macros
# Windows: min, max, small, near, far, interface. X11: Success, None, Always, Bool, True, False, Status. <complex.h>: I.
file(WRITE ${FOLDER}/hostile.cpp "${foreign_includes}
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define small char
#define near
#define far
#define interface struct
#define Success 0
#define None 0L
#define Always 2
#define Bool int
#define True 1
#define False 0
#define Status int
#define I 1.0i
#define N 1000
${our_includes}
#if !defined(min) || !defined(max) || !defined(Success) || !defined(None) || !defined(I) || !defined(N)
#error \"a header has undefined a macro of the program's\"
#endif
")
execute_process(COMMAND ${COMPILE} -fsyntax-only ${FOLDER}/hostile.cpp
  RESULT_VARIABLE result ERROR_VARIABLE diagnostic)
if(NOT result EQUAL 0)
  message("${diagnostic}")
  message(FATAL_ERROR "headers break after macros of other libraries")
endif()

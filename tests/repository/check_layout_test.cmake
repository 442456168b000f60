# Shows that cmake/check_layout.cmake finds each kind of violation:
#   cmake -D CHECK=<check_layout.cmake> -D FOLDER=<scratch> -P check_layout_test.cmake
cmake_minimum_required(VERSION 3.25)

function(write_header name)
  list(JOIN ARGN "\n" text)
  file(WRITE ${FOLDER}/include/eigenformer/${name} "#pragma once\n${text}\n")
endfunction()

# A repository without violations.
function(write_repository)
  file(REMOVE_RECURSE ${FOLDER})
  file(MAKE_DIRECTORY ${FOLDER}/tests ${FOLDER}/bench ${FOLDER}/examples ${FOLDER}/cmake
    ${FOLDER}/build)
  foreach(file CMakeLists.txt README.md LICENSE CMakePresets.json CHANGELOG.md CONTRIBUTING.md)
    file(WRITE ${FOLDER}/${file} "")
  endforeach()
  write_header(base/shape.hpp "#include <Eigen/Core>")
  write_header(kernels/softmax.hpp "#include \"eigenformer/base/shape.hpp\"" "#include <immintrin.h>")
  write_header(nn/module.hpp "#include <eigenformer/base/shape.hpp>")
  write_header(nn/linear.hpp "#include \"eigenformer/kernels/softmax.hpp\""
    "#include \"eigenformer/nn/module.hpp\"")
  write_header(io/safetensors.hpp "#include \"eigenformer/nn/module.hpp\"" "#include <nlohmann/json.hpp>")
  write_header(train/loss.hpp "#include \"eigenformer/nn/module.hpp\"")
  write_header(models/bert.hpp "#include \"eigenformer/nn/linear.hpp\"")
  write_header(models/bert_file.hpp "#include \"eigenformer/io/safetensors.hpp\"")
  write_header(eigenformer.hpp "// The whole library." "#include \"eigenformer/base/shape.hpp\""
    "#include \"eigenformer/nn/linear.hpp\"" "#include \"eigenformer/models/bert.hpp\""
    "#include \"eigenformer/train/loss.hpp\"")
endfunction()

function(expect outcome)
  execute_process(COMMAND ${CMAKE_COMMAND} -D REPOSITORY=${FOLDER} -P ${CHECK}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(outcome STREQUAL "success")
    if(NOT result EQUAL 0)
      message(SEND_ERROR "expected success, got: ${output}")
    endif()
  else()
    string(REGEX REPLACE "[ \n]+" " " output "${output}")
    string(FIND "${output}" "${outcome}" place)
    if(result EQUAL 0 OR place EQUAL -1)
      message(SEND_ERROR "expected \"${outcome}\", got: ${output}")
    endif()
  endif()
endfunction()

function(expect_violation header line outcome)
  write_repository()
  file(APPEND ${FOLDER}/include/eigenformer/${header} "${line}\n")
  expect("${outcome}")
endfunction()

write_repository()
expect(success)

expect_violation(base/shape.hpp "#include \"eigenformer/kernels/softmax.hpp\""
  "base/shape.hpp: may not include kernels/softmax.hpp")
expect_violation(kernels/softmax.hpp "#  include <eigenformer/nn/module.hpp>"
  "kernels/softmax.hpp: may not include nn/module.hpp")
expect_violation(nn/linear.hpp "#include \"eigenformer/models/bert.hpp\""
  "nn/linear.hpp: may not include models/bert.hpp")
expect_violation(train/loss.hpp "#include \"eigenformer/nn/linear.hpp\""
  "train/loss.hpp: may not include nn/linear.hpp")
expect_violation(io/safetensors.hpp "#include \"eigenformer/models/bert.hpp\""
  "io/safetensors.hpp: may not include models/bert.hpp")
expect_violation(models/bert.hpp "#include \"eigenformer/train/loss.hpp\""
  "models/bert.hpp: may not include train/loss.hpp")
expect_violation(nn/linear.hpp "#include \"module.hpp\""
  "nn/linear.hpp: module.hpp must be named from the root")
expect_violation(nn/linear.hpp "#include \"eigenformer/nn/norm.hpp\""
  "nn/linear.hpp: nn/norm.hpp does not exist")
foreach(name iostream regex Eigen/Dense unsupported/Eigen/CXX11/Tensor bits/stdc++.h)
  expect_violation(nn/linear.hpp "#include <${name}>" "nn/linear.hpp: may not include <${name}>")
endforeach()
expect_violation(nn/linear.hpp "#include <nlohmann/json.hpp>"
  "nn/linear.hpp: <nlohmann/json.hpp> belongs to io/")
expect_violation(nn/linear.hpp "#include <immintrin.h>"
  "nn/linear.hpp: <immintrin.h> belongs to kernels/")
expect_violation(nn/linear.hpp "  workspace.parallel_for(n, f)"
  "nn/linear.hpp: belongs to kernels/")
expect_violation(nn/linear.hpp "  kernels::target<T>().add(x, z, y, n)"
  "nn/linear.hpp: belongs to kernels/")
expect_violation(extra/thing.hpp "" "extra/thing.hpp: is no header of a known floor")
expect_violation(nn/norm.hpp "" "eigenformer.hpp: does not reach nn/norm.hpp")
expect_violation(eigenformer.hpp "#include \"eigenformer/io/safetensors.hpp\""
  "eigenformer.hpp: may not include io/safetensors.hpp")
expect_violation(eigenformer.hpp "#include \"eigenformer/models/bert_file.hpp\""
  "eigenformer.hpp: reaches models/bert_file.hpp, which needs a JSON parser")
expect_violation(eigenformer.hpp "#include \"eigenformer/base/shape.hpp\""
  "eigenformer.hpp: base/shape.hpp comes after a higher floor")
expect_violation(eigenformer.hpp "int x;" "eigenformer.hpp: may hold includes only")

write_repository()
file(WRITE ${FOLDER}/setup.py "")
expect("top level: setup.py should not be there")
write_repository()
file(REMOVE ${FOLDER}/LICENSE)
expect("top level: LICENSE is missing")

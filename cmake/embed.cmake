# eigenformer_embed(<target> <file> <name>): puts the bytes of <file> into the program or library <target>.
#
#   eigenformer_embed(language_id language_id.safetensors language_id_model)
#
#   #include "embedded/language_id_model.hpp"
#   std::span<const std::byte> bytes = embedded::language_id_model();   // aligned to 64 bytes, static lifetime
#
# The assembler copies the file (.incbin), so megabytes cost no compile time; GCC and Clang, ELF and Mach-O.
function(eigenformer_embed target file name)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}_embedded)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/embedded.hpp.in ${folder}/embedded/${name}.hpp @ONLY)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/embedded.cpp.in ${folder}/${name}.cpp @ONLY)
  # The compiler does not see what the assembler reads; link-time optimisation does not see symbols made by asm.
  set_source_files_properties(${folder}/${name}.cpp PROPERTIES
    OBJECT_DEPENDS ${file}
    COMPILE_OPTIONS -fno-lto
    SKIP_PRECOMPILE_HEADERS ON
  )
  target_sources(${target} PRIVATE ${folder}/${name}.cpp)
  target_include_directories(${target} PRIVATE ${folder})
endfunction()

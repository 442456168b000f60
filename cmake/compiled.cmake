# eigenformer::compiled: the library with its vector code, its usual modules and models and its JSON parser compiled once
# for all translation units of a program instead of in each. It is built in the user's own project, with the user's flags, also from an installed package: both must be
# compiled for the same instruction set; if not, linking fails.
if(NOT TARGET eigenformer_compiled)
  add_library(eigenformer_compiled STATIC EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/compiled.cpp
    ${CMAKE_CURRENT_LIST_DIR}/compiled_modules.cpp)
  add_library(eigenformer::compiled ALIAS eigenformer_compiled)
  target_link_libraries(eigenformer_compiled PUBLIC eigenformer::eigenformer)
  # Also for shared libraries.
  set_target_properties(eigenformer_compiled PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(eigenformer_compiled INTERFACE EIGENFORMER_COMPILED)
  if(TARGET nlohmann_json::nlohmann_json)
    target_sources(eigenformer_compiled PRIVATE ${CMAKE_CURRENT_LIST_DIR}/compiled_json.cpp)
    target_link_libraries(eigenformer_compiled PRIVATE nlohmann_json::nlohmann_json)
    target_compile_definitions(eigenformer_compiled INTERFACE EIGENFORMER_COMPILED_JSON)
  endif()
endif()

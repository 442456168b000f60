# Installs the headers and the package files for find_package(eigenformer).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# share/, not lib/: nothing installed depends on the machine.
set(package_folder ${CMAKE_INSTALL_DATADIR}/cmake/eigenformer)

install(TARGETS eigenformer EXPORT eigenformer FILE_SET HEADERS)
install(EXPORT eigenformer NAMESPACE eigenformer:: FILE eigenformerTargets.cmake
  DESTINATION ${package_folder})
if(TARGET eigenformer_io)
  install(TARGETS eigenformer_io EXPORT eigenformer_io FILE_SET HEADERS)
  install(EXPORT eigenformer_io NAMESPACE eigenformer:: FILE eigenformer_ioTargets.cmake
    DESTINATION ${package_folder})
endif()

configure_package_config_file(
  cmake/eigenformerConfig.cmake.in ${PROJECT_BINARY_DIR}/eigenformerConfig.cmake
  INSTALL_DESTINATION ${package_folder}
  NO_SET_AND_CHECK_MACRO
)
# Before 1.0 a new minor version may break programs.
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/eigenformerConfigVersion.cmake
  COMPATIBILITY SameMinorVersion
  ARCH_INDEPENDENT
)
install(
  FILES
    ${PROJECT_BINARY_DIR}/eigenformerConfig.cmake
    ${PROJECT_BINARY_DIR}/eigenformerConfigVersion.cmake
    cmake/compiled.cmake
    cmake/compiled.cpp
    cmake/compiled_json.cpp
    cmake/compiled_modules.cpp
  DESTINATION ${package_folder}
)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

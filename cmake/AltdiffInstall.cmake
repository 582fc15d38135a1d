# An install tree from which find_package(altdiff) works.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(ALTDIFF_CMAKE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/altdiff")
install(TARGETS altdiff EXPORT altdiffTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/altdiff DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT altdiffTargets NAMESPACE altdiff:: DESTINATION "${ALTDIFF_CMAKE_DIR}")

configure_package_config_file(cmake/altdiffConfig.cmake.in "${PROJECT_BINARY_DIR}/altdiffConfig.cmake"
                              INSTALL_DESTINATION "${ALTDIFF_CMAKE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/altdiffConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/altdiffConfig.cmake" "${PROJECT_BINARY_DIR}/altdiffConfigVersion.cmake"
              cmake/AltdiffBlas.cmake cmake/AltdiffWheels.cmake DESTINATION "${ALTDIFF_CMAKE_DIR}")

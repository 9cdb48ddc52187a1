# include/srt/filter.h with a pkg-config file and a CMake package: `pkg-config --cflags srt-filter`, or
# find_package(SrtFilter) and SrtFilter::filter. Component `devel`.
include(CMakePackageConfigHelpers)

install(FILES include/srt/filter.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/srt COMPONENT devel)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/SrtFilter)
file(RELATIVE_PATH prefix_from_pc /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
configure_file(cmake/srt-filter.pc.in ${PROJECT_BINARY_DIR}/srt-filter.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/srt-filter.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT devel)

configure_package_config_file(cmake/SrtFilterConfig.cmake.in
    ${PROJECT_BINARY_DIR}/SrtFilterConfig.cmake INSTALL_DESTINATION ${package_dir}
    PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/SrtFilterConfigVersion.cmake
    COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/SrtFilterConfig.cmake
    ${PROJECT_BINARY_DIR}/SrtFilterConfigVersion.cmake DESTINATION ${package_dir} COMPONENT devel)

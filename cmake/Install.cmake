# libtrireme.so and libtrireme.a, and the files that `cmake --install` installs: the program, the headers of include/trireme, both libraries, a
# package for find_package(trireme), docs and examples. A project that adds this one with add_subdirectory links trireme::trireme, the rooms.

set(rooms base comm tensor model zoo data schedule update plan program runtime profile cost sim planner metrics experiment checkpoint forecast
          train report study library cli)

# Targets that link this get libtorch's flags and the public headers, marked SYSTEM so that the project's warnings do not apply to them.
add_library(trireme_everything INTERFACE)
target_compile_features(trireme_everything INTERFACE cxx_std_20)
target_link_libraries(trireme_everything INTERFACE $<LINK_ONLY:trireme_cli> trireme_malloc trireme_torch nlohmann_json::nlohmann_json)
target_include_directories(trireme_everything SYSTEM INTERFACE "${PROJECT_SOURCE_DIR}/include")
add_library(trireme::trireme ALIAS trireme_everything)

option(TRIREME_INSTALL "Build the libraries that cmake --install installs" ${PROJECT_IS_TOP_LEVEL})
if(NOT TRIREME_INSTALL OR TRIREME_SANITIZE)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(objects "")
foreach(room IN LISTS rooms)
  list(APPEND objects $<TARGET_OBJECTS:trireme_${room}>)
  if(TARGET trireme_${room}_operators)
    list(APPEND objects $<TARGET_OBJECTS:trireme_${room}_operators>)
  endif()
endforeach()
add_library(trireme_archive STATIC ${objects})
add_library(trireme_shared SHARED ${objects})
foreach(library trireme_archive trireme_shared)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME trireme LINKER_LANGUAGE CXX)
endforeach()
set_target_properties(trireme_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_link_libraries(trireme_shared PRIVATE trireme_cli)

# The libraries, besides libtorch, that a program linked with libtrireme.a needs, as found on the machine that builds it.
set(linked $<TARGET_LINKER_FILE:fmt::fmt> $<TARGET_LINKER_FILE:spdlog::spdlog> $<TARGET_LINKER_FILE:tomlplusplus::tomlplusplus> ${Protobuf_LIBRARY_RELEASE})
foreach(module cbc hwloc zmq sodium tcmalloc)
  list(APPEND linked ${${module}_LINK_LIBRARIES})
endforeach()
list(APPEND linked ${ZLIB_LIBRARIES} ${CURL_LIBRARIES} ${OPENSSL_CRYPTO_LIBRARY} ${LibArchive_LIBRARIES} ${JPEG_LIBRARIES} ${PNG_LIBRARIES}
     ${MPI_CXX_LIBRARIES} ${CMAKE_DL_LIBS})
if(TRIREME_ONNX_LIBRARY)
  list(APPEND linked "${TRIREME_ONNX_LIBRARY}")
endif()
set(TRIREME_LINKED "${linked}")

set(TRIREME_PAGES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE)
set(package_folder "${CMAKE_INSTALL_LIBDIR}/cmake/trireme")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/triremeConfig.cmake.in" "${PROJECT_BINARY_DIR}/package/triremeConfig.cmake.in"
                              INSTALL_DESTINATION "${package_folder}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/package/triremeConfig.cmake" INPUT "${PROJECT_BINARY_DIR}/package/triremeConfig.cmake.in")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/triremeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)

install(TARGETS trireme RUNTIME COMPONENT program)
install(TARGETS trireme_main RUNTIME DESTINATION "${TRIREME_INSTALLED_FOLDER}" COMPONENT program)
install(DIRECTORY "$<TARGET_FILE_DIR:trireme_main>/help" DESTINATION "${TRIREME_INSTALLED_FOLDER}" COMPONENT program)
install(TARGETS trireme_shared LIBRARY COMPONENT program NAMELINK_COMPONENT development)
install(TARGETS trireme_archive ARCHIVE COMPONENT development)
if(TARGET trireme_sentencepiece)
  install(TARGETS trireme_sentencepiece LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/trireme" COMPONENT program)
endif()
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/trireme" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development)
install(FILES "${PROJECT_BINARY_DIR}/package/triremeConfig.cmake" "${PROJECT_BINARY_DIR}/package/triremeConfigVersion.cmake"
        DESTINATION "${package_folder}" COMPONENT development)
list(TRANSFORM TRIREME_PAGES PREPEND "${PROJECT_SOURCE_DIR}/")
install(FILES ${TRIREME_PAGES} DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT program RENAME copyright)  # Debian's name for it
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/docs" COMPONENT program)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples/" DESTINATION "${CMAKE_INSTALL_DOCDIR}/examples" COMPONENT program)

include(Pages)
trireme_install_pages(COMPONENT program)

# cpack in the build folder writes trireme_VERSION_ARCH.deb. Its dependencies are found from the programs and libraries in it.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME trireme)
set(CPACK_PACKAGE_CONTACT "Trireme maintainers <maintainers@trireme.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train a neural network under any parallelism strategy and find the best one")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/src")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0-openmp")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates")
# For projects that use the library: all but the first line are what libtrireme.a is linked with.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, g++, libtorch-dev, nlohmann-json3-dev, openmpi-bin, \
coinor-libcbc-dev, libarchive-dev, libcurl4-openssl-dev, libfmt-dev, libgoogle-perftools-dev, libhwloc-dev, libjpeg-dev, libonnx-dev, libopenmpi-dev, \
libpng-dev, libprotobuf-dev, libsodium-dev, libspdlog-dev, libssl-dev, libtomlplusplus-dev, libzmq3-dev, zlib1g-dev")
include(CPack)

# The target `trireme` is a small program that prints help pages and starts `trireme_main` for everything else (src/cli/front.cpp), because loading
# libtorch takes half a second. trireme_main writes the help pages whenever it is linked, so that they fit this build.
include(GNUInstallDirs)
set(TRIREME_PROGRAM_FOLDER program)                              # below the folder of `trireme`, in a build folder
set(TRIREME_INSTALLED_FOLDER "${CMAKE_INSTALL_LIBDIR}/trireme")  # below the prefix
file(RELATIVE_PATH from_programs "/prefix/${CMAKE_INSTALL_BINDIR}" "/prefix/${TRIREME_INSTALLED_FOLDER}")

add_executable(trireme_main cli/main.cpp)
target_link_libraries(trireme_main PRIVATE trireme_cli trireme_malloc)
if(CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(folder "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/${TRIREME_PROGRAM_FOLDER}")
else()
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${TRIREME_PROGRAM_FOLDER}")
endif()
set_target_properties(trireme_main PROPERTIES OUTPUT_NAME trireme RUNTIME_OUTPUT_DIRECTORY "${folder}")
# A build with a sanitizer does not check for leaks here.
add_custom_command(TARGET trireme_main POST_BUILD VERBATIM
                   COMMAND ${CMAKE_COMMAND} -E rm -rf "${folder}/help"
                   COMMAND ${CMAKE_COMMAND} -E env ASAN_OPTIONS=detect_leaks=0 $<TARGET_FILE:trireme_main> --write-help "${folder}/help")

add_executable(trireme cli/front.cpp)
target_compile_features(trireme PRIVATE cxx_std_20)
target_compile_definitions(trireme PRIVATE TRIREME_PROGRAM_FOLDER="${TRIREME_PROGRAM_FOLDER}" TRIREME_INSTALLED_FOLDER="${from_programs}")
add_dependencies(trireme trireme_main)

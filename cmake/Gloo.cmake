# Chooses the file of the gloo backend: the one with c10d's, if libtorch has it and gloo's headers are installed, otherwise one that reports that gloo
# is missing.
find_path(TRIREME_GLOO_HEADERS gloo/context.h)
find_path(TRIREME_C10D_HEADERS torch/csrc/distributed/c10d/ProcessGroupGloo.hpp HINTS ${TORCH_INCLUDE_DIRS})
set(gloo_folder "${PROJECT_SOURCE_DIR}/src/comm/gloo")
if(TRIREME_GLOO_HEADERS AND TRIREME_C10D_HEADERS)
  set(TRIREME_GLOO_LEFT_OUT "${gloo_folder}/no_gloo.cpp")
  set_source_files_properties("${gloo_folder}/c10d_transport.cpp" PROPERTIES COMPILE_DEFINITIONS USE_C10D_GLOO)
  # If this names one of the compiler's folders again, the folder comes too early, and clang misses the C library's headers.
  if(NOT TRIREME_GLOO_HEADERS IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
    set_source_files_properties("${gloo_folder}/c10d_transport.cpp" PROPERTIES INCLUDE_DIRECTORIES "${TRIREME_GLOO_HEADERS}")
  endif()
else()
  message(STATUS "No gloo backend: libtorch's c10d or gloo's headers are missing (Debian: apt-get install libgloo-dev)")
  set(TRIREME_GLOO_LEFT_OUT "${gloo_folder}/c10d_transport.cpp")
endif()

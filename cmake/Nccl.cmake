# Chooses the files of the nccl backend: those with NCCL's functions, if libtorch has CUDA, otherwise one that reports that NCCL is missing. NCCL's header
# comes with the CUDA toolkit or NCCL's package. The library itself is libtorch's, which a process finds when it runs.
find_path(TRIREME_NCCL_HEADERS nccl.h HINTS "${CUDA_TOOLKIT_ROOT_DIR}/include" "${CUDAToolkit_INCLUDE_DIRS}")
set(nccl_folder "${PROJECT_SOURCE_DIR}/src/comm/nccl")
set(nccl_files "${nccl_folder}/nccl_library.cpp" "${nccl_folder}/nccl_link.cpp")
if(TARGET torch_cuda AND TRIREME_NCCL_HEADERS)
  set(TRIREME_NCCL_LEFT_OUT "${nccl_folder}/no_nccl.cpp")
  set_source_files_properties(${nccl_files} PROPERTIES SKIP_PRECOMPILE_HEADERS ON INCLUDE_DIRECTORIES
                              "${TRIREME_NCCL_HEADERS};${CUDAToolkit_INCLUDE_DIRS};${CUDA_INCLUDE_DIRS}")
else()
  message(STATUS "No nccl backend: libtorch here has no CUDA, or nccl.h is missing")
  set(TRIREME_NCCL_LEFT_OUT ${nccl_files})
endif()

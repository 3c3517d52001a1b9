# Chooses the file of the nccl backend: the one with c10d's, if libtorch has it, otherwise one that reports that NCCL is missing. A CUDA libtorch
# names its CUDA library; NCCL's header, which c10d's needs, comes with the CUDA toolkit or NCCL's package.
find_path(TRIREME_NCCL_HEADERS nccl.h HINTS "${CUDA_TOOLKIT_ROOT_DIR}/include" "${CUDAToolkit_INCLUDE_DIRS}")
set(nccl_folder "${PROJECT_SOURCE_DIR}/src/comm/nccl")
if(TARGET torch_cuda AND TRIREME_NCCL_HEADERS AND TRIREME_GLOO_HEADERS)
  set(TRIREME_NCCL_LEFT_OUT "${nccl_folder}/no_nccl.cpp")
  set_source_files_properties("${nccl_folder}/c10d_nccl.cpp" PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_DEFINITIONS USE_C10D_NCCL
                              INCLUDE_DIRECTORIES "${TRIREME_NCCL_HEADERS};${CUDAToolkit_INCLUDE_DIRS};${CUDA_INCLUDE_DIRS}")
else()
  message(STATUS "No nccl backend: libtorch here has no CUDA, or nccl.h is missing")
  set(TRIREME_NCCL_LEFT_OUT "${nccl_folder}/c10d_nccl.cpp")
endif()

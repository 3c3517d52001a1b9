# Chooses the files for GPUs: those with CUDA's headers, if libtorch has CUDA, otherwise those that know of no GPU.
set(gpu_folder "${PROJECT_SOURCE_DIR}/src/base/devices")
set(graph_folder "${PROJECT_SOURCE_DIR}/src/runtime/graph")
if(TARGET torch_cuda)
  set(TRIREME_GPU_LEFT_OUT "${gpu_folder}/no_gpu.cpp")
  set(TRIREME_GRAPH_LEFT_OUT "${graph_folder}/no_graph.cpp")
  set_source_files_properties("${gpu_folder}/cuda_gpu.cpp" "${graph_folder}/cuda_graph.cpp" PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON
                              INCLUDE_DIRECTORIES "${CUDAToolkit_INCLUDE_DIRS};${CUDA_INCLUDE_DIRS}")
else()
  set(TRIREME_GPU_LEFT_OUT "${gpu_folder}/cuda_gpu.cpp")
  set(TRIREME_GRAPH_LEFT_OUT "${graph_folder}/cuda_graph.cpp")
endif()

# Chooses the file for ONNX. libonnx_proto has only the classes of its format, which the protobuf compiler makes. Debian's libtorch is linked with the
# same library.
find_path(TRIREME_ONNX_HEADERS onnx/onnx_pb.h)
find_library(TRIREME_ONNX_LIBRARY onnx_proto)
set(onnx_folder "${PROJECT_SOURCE_DIR}/src/model/export")
add_library(trireme_onnx INTERFACE)
if(TRIREME_ONNX_HEADERS AND TRIREME_ONNX_LIBRARY)
  set(TRIREME_ONNX_LEFT_OUT "${onnx_folder}/no_onnx.cpp")
  target_include_directories(trireme_onnx SYSTEM INTERFACE "${TRIREME_ONNX_HEADERS}")
  target_link_libraries(trireme_onnx INTERFACE "${TRIREME_ONNX_LIBRARY}" trireme_protobuf)
else()
  set(TRIREME_ONNX_LEFT_OUT "${onnx_folder}/onnx.cpp" "${onnx_folder}/onnx_graph.cpp")
  message(STATUS "No ONNX: the library was not found (Debian: apt-get install libonnx-dev)")
endif()

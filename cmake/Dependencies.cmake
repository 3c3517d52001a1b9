# All dependencies are packages of the system. The error for a missing one names the package to install.

function(trireme_missing package debian)
  message(FATAL_ERROR "Trireme needs ${package}, which was not found. On Debian or Ubuntu: apt-get install ${debian} "
          "(./run does this for you). Elsewhere: install it and name its folder in CMAKE_PREFIX_PATH.")
endfunction()

macro(trireme_find package debian)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    trireme_missing(${package} ${debian})
  endif()
endmacro()

# A project that adds this one with add_subdirectory links its libraries from a folder above.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

trireme_find(Threads libc6-dev)
trireme_find(Torch libtorch-dev)
trireme_find(nlohmann_json nlohmann-json3-dev)
trireme_find(CLI11 libcli11-dev)
trireme_find(tomlplusplus libtomlplusplus-dev)
trireme_find(fmt libfmt-dev)
trireme_find(spdlog libspdlog-dev)
trireme_find(Protobuf "libprotobuf-dev protobuf-compiler")
trireme_find(ZLIB zlib1g-dev)
trireme_find(CURL libcurl4-openssl-dev)
trireme_find(OpenSSL libssl-dev)
trireme_find(LibArchive libarchive-dev)
trireme_find(JPEG libjpeg-dev)
trireme_find(PNG libpng-dev)
find_package(PkgConfig QUIET)
if(NOT PkgConfig_FOUND)
  trireme_missing(pkg-config pkg-config)
endif()

pkg_check_modules(cbc QUIET IMPORTED_TARGET GLOBAL cbc)
if(NOT cbc_FOUND)
  trireme_missing(CBC coinor-libcbc-dev)
endif()

pkg_check_modules(hwloc QUIET IMPORTED_TARGET GLOBAL hwloc>=2.0)
if(NOT hwloc_FOUND)
  trireme_missing(hwloc libhwloc-dev)
endif()

pkg_check_modules(zmq QUIET IMPORTED_TARGET GLOBAL libzmq>=4.3)
if(NOT zmq_FOUND)
  trireme_missing(ZeroMQ libzmq3-dev)
endif()
find_path(TRIREME_CPPZMQ_HEADERS zmq.hpp)
if(NOT TRIREME_CPPZMQ_HEADERS)
  trireme_missing(cppzmq cppzmq-dev)
endif()
pkg_check_modules(sodium QUIET IMPORTED_TARGET GLOBAL libsodium)
if(NOT sodium_FOUND)
  trireme_missing(libsodium libsodium-dev)
endif()

# libtorch's target adds C++14 flags and many header folders; this target has only what we compile with.
add_library(trireme_torch INTERFACE)
target_include_directories(trireme_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(trireme_torch INTERFACE ${TORCH_LIBRARIES} Threads::Threads)
separate_arguments(torch_flags NATIVE_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(trireme_torch INTERFACE ${torch_flags})
# With C++20's vector, clang compiles libtorch 1.13's headers only if this one comes first; they include it in a circle.
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  target_compile_options(trireme_torch INTERFACE "SHELL:-include ATen/core/ivalue.h")
endif()

# After each step glibc's malloc returns memory to the kernel, and the next step takes it again page by page. This costs 5 to 25 % of a step.
pkg_check_modules(tcmalloc QUIET IMPORTED_TARGET GLOBAL libtcmalloc_minimal)
add_library(trireme_malloc INTERFACE)
if(tcmalloc_FOUND AND NOT TRIREME_SANITIZE)
  target_link_libraries(trireme_malloc INTERFACE -Wl,--no-as-needed PkgConfig::tcmalloc -Wl,--as-needed)
elseif(NOT TRIREME_SANITIZE)
  trireme_missing(tcmalloc libgoogle-perftools-dev)
endif()

find_program(TRIREME_MOLD mold)
if(TRIREME_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
find_program(TRIREME_CCACHE ccache)
if(TRIREME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Precompiled headers contain times and macros; without this ccache would not cache files that use them.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TRIREME_CCACHE})
endif()

if(TRIREME_TESTS)
  trireme_find(GTest "libgtest-dev libgmock-dev")
endif()

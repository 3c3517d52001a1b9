#include "comm/nccl/nccl_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace trireme {
namespace {

constexpr const char* kFile = "libnccl.so.2";

struct Found {
  NcclLibrary functions{};
  std::string why;  ///< why they are not all there; "" if they are
};

// Two copies of NCCL in one process would each take memory on the GPU. So this process uses libtorch's copy, and the
// build links none.
Found look_up() {
  Found found;
  void* const library = dlopen(kFile, RTLD_NOW | RTLD_GLOBAL);  // the one that libtorch has loaded, if it has
  if (!library) {
    const char* const error = dlerror();
    found.why = error ? error : fmt::format("{} cannot be loaded", kFile);
    return found;
  }
  const auto take = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && found.why.empty())
      found.why = fmt::format("{} has no {}: it is older than NCCL 2.14", kFile, name);
  };
  NcclLibrary& f = found.functions;
  take(f.get_version, "ncclGetVersion");
  take(f.get_error_string, "ncclGetErrorString");
  take(f.get_last_error, "ncclGetLastError");
  take(f.get_unique_id, "ncclGetUniqueId");
  take(f.init_rank, "ncclCommInitRankConfig");
  take(f.get_async_error, "ncclCommGetAsyncError");
  take(f.finalize, "ncclCommFinalize");
  take(f.destroy, "ncclCommDestroy");
  take(f.abort, "ncclCommAbort");
  take(f.group_start, "ncclGroupStart");
  take(f.group_end, "ncclGroupEnd");
  take(f.send, "ncclSend");
  take(f.receive, "ncclRecv");
  take(f.broadcast, "ncclBroadcast");
  return found;
}

}  // namespace

const NcclLibrary* nccl_library(std::string* why) {
  static const Found found = look_up();
  if (why) *why = found.why;
  return found.why.empty() ? &found.functions : nullptr;
}

std::string nccl_version() {
  int version = 0;
  const NcclLibrary* const nccl = nccl_library();
  if (!nccl || nccl->get_version(&version) != ncclSuccess) return "";
  return fmt::format("NCCL {}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
}

}  // namespace trireme

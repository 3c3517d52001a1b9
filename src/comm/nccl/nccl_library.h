// The functions of the NCCL library that libtorch uses in this process.
#pragma once

#include <nccl.h>

#include <string>

namespace trireme {

struct NcclLibrary {
  decltype(&ncclGetVersion) get_version;
  decltype(&ncclGetErrorString) get_error_string;
  decltype(&ncclGetLastError) get_last_error;
  decltype(&ncclGetUniqueId) get_unique_id;
  decltype(&ncclCommInitRankConfig) init_rank;
  decltype(&ncclCommGetAsyncError) get_async_error;
  decltype(&ncclCommFinalize) finalize;
  decltype(&ncclCommDestroy) destroy;
  decltype(&ncclCommAbort) abort;
  decltype(&ncclGroupStart) group_start;
  decltype(&ncclGroupEnd) group_end;
  decltype(&ncclSend) send;
  decltype(&ncclRecv) receive;
  decltype(&ncclBroadcast) broadcast;
};

/// Returns null if the process finds no NCCL with all of these functions; `why` then says so. Thread-safe.
const NcclLibrary* nccl_library(std::string* why = nullptr);

/// "NCCL 2.28.9"; "" without the library.
std::string nccl_version();

}  // namespace trireme

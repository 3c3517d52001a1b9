// One of NCCL's communicators, with a stream of its own.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/direct/device_link.h"
#include "comm/nccl/nccl_library.h"

namespace trireme {

class NcclLink final : public DeviceLink {
 public:
  /// Waits for the other members. `rank`: this member's number among the `size` members. Each member must have a GPU of
  /// its own.
  NcclLink(const std::string& id, int rank, int size, c10::Device gpu, LinkPatience patience);
  ~NcclLink() override;
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  void exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                const std::string& doing) override;
  void broadcast(const at::Tensor& tensor, int root, const std::string& doing) override;
  void send(const at::Tensor& tensor, int to, const WorkBefore& before, const std::string& doing) override;
  void receive(const at::Tensor& tensor, int from, const std::string& doing) override;

 private:
  class Stream;
  void require_success(ncclResult_t result, const std::string& doing);
  /// Waits until NCCL has put the requested operation on the stream.
  void settle(ncclResult_t result, const std::string& doing);
  void start_after_caller();
  void wait_for_gpu(const std::string& doing);
  /// Calls `ask` between NCCL's beginning and end of a group, and waits for the GPU.
  void run(const std::function<ncclResult_t()>& ask, const std::string& doing);
  void wait_until(const std::function<bool()>& done, const std::string& doing);

  const NcclLibrary& nccl_;
  const int rank_, size_;
  const c10::Device gpu_;
  const LinkPatience patience_;
  const std::unique_ptr<Stream> stream_;
  ncclComm_t comm_ = nullptr;
  bool failed_ = false;
};

}  // namespace trireme

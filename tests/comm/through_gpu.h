// A communicator for tests with tensors in host memory: it copies them to a device and back, so that those of the
// communicator under test are there.
#pragma once

#include <ATen/ATen.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trireme/communicator.h"

namespace trireme::test_support {

class ThroughGpu final : public Communicator {
 public:
  ThroughGpu(std::unique_ptr<Communicator> inner, at::Device gpu) : inner_(std::move(inner)), gpu_(gpu) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce(at::Tensor& tensor, ReduceOp op) override {
    at::Tensor there = tensor.to(gpu_);
    inner_->all_reduce(there, op);
    tensor.copy_(there);
  }
  void all_gather(const at::Tensor& input, std::span<at::Tensor> outputs) override {
    std::vector<at::Tensor> there = copies(outputs);
    inner_->all_gather(input.to(gpu_), there);
    copy_back(there, outputs);
  }
  void reduce_scatter(std::span<const at::Tensor> inputs, at::Tensor& output) override {
    at::Tensor there = output.to(gpu_);
    inner_->reduce_scatter(copies(inputs), there);
    output.copy_(there);
  }
  void all_to_all(std::span<const at::Tensor> inputs, std::span<at::Tensor> outputs) override {
    std::vector<at::Tensor> there = copies(outputs);
    inner_->all_to_all(copies(inputs), there);
    copy_back(there, outputs);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    at::Tensor there = tensor.to(gpu_);
    inner_->broadcast(there, root);
    tensor.copy_(there);
  }
  void send(const at::Tensor& tensor, int to, int64_t tag) override { inner_->send(tensor.to(gpu_), to, tag); }
  at::Tensor receive(int from, int64_t tag) override { return inner_->receive(from, tag).cpu(); }
  void barrier() override { inner_->barrier(); }
  std::unique_ptr<Communicator> group(std::span<const int> ranks) override {
    return std::make_unique<ThroughGpu>(inner_->group(ranks), gpu_);
  }
  CommunicationCount count() const override { return inner_->count(); }
  void abort(const std::string& reason) override { inner_->abort(reason); }
  std::string abort_reason() const override { return inner_->abort_reason(); }

 private:
  template <class Tensors>
  std::vector<at::Tensor> copies(const Tensors& tensors) const {
    std::vector<at::Tensor> there;
    for (const at::Tensor& tensor : tensors) there.push_back(tensor.defined() ? tensor.to(gpu_) : tensor);
    return there;
  }
  static void copy_back(const std::vector<at::Tensor>& from, std::span<at::Tensor> to) {
    for (size_t i = 0; i < from.size(); ++i)
      if (to[i].defined()) to[i].copy_(from[i]);
  }

  const std::unique_ptr<Communicator> inner_;
  const at::Device gpu_;
};

}  // namespace trireme::test_support

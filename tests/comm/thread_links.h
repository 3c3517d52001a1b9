// Links between devices for tests: ranks are threads, and a tensor travels through memory of the host. Like NCCL's, a
// link begins when all its members are there, and a send ends when its receiver has taken the tensor.
#pragma once

#include <ATen/ATen.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/direct/device_link.h"

namespace trireme::test_support {

/// What the members of one link share.
struct MeetingPlace {
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  std::map<std::pair<int, int>, std::deque<at::Tensor>> sent;  ///< by sender and receiver
};

class ThreadLink final : public DeviceLink {
 public:
  ThreadLink(std::shared_ptr<MeetingPlace> place, int member, int members, LinkPatience patience)
      : place_(std::move(place)), member_(member), members_(members), patience_(std::move(patience)) {
    {
      const std::lock_guard lock(place_->mutex);
      ++place_->arrived;
    }
    place_->changed.notify_all();
    wait_until([&] { return place_->arrived == members_; }, "connecting");
  }

  void exchange(const std::vector<at::Tensor>& to, const std::vector<at::Tensor>& from,
                const std::string& doing) override {
    for (int q = 0; q < members_; ++q)
      if (q != member_ && to[size_t(q)].numel() > 0) put(to[size_t(q)], q);
    for (int q = 0; q < members_; ++q)
      if (q != member_ && from[size_t(q)].numel() > 0) take(from[size_t(q)], q, doing);
    if (from[size_t(member_)].numel() > 0) from[size_t(member_)].copy_(to[size_t(member_)]);
    wait_until_taken(doing);
  }
  void broadcast(const at::Tensor& tensor, int root, const std::string& doing) override {
    if (member_ != root) return take(tensor, root, doing);
    for (int q = 0; q < members_; ++q)
      if (q != root) put(tensor, q);
    wait_until_taken(doing);
  }
  void send(const at::Tensor& tensor, int to, const WorkBefore&, const std::string& doing) override {
    put(tensor, to);
    wait_until_taken(doing);
  }
  void receive(const at::Tensor& tensor, int from, const std::string& doing) override { take(tensor, from, doing); }

 private:
  template <class Condition>
  void wait_until(const Condition& condition, const std::string& doing) {
    const auto start = std::chrono::steady_clock::now();
    std::unique_lock lock(place_->mutex);
    while (!condition()) {
      place_->changed.wait_for(lock, std::chrono::milliseconds(10));
      lock.unlock();
      patience_(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), doing);
      lock.lock();
    }
  }
  void put(const at::Tensor& tensor, int to) {
    const at::Tensor copy = tensor.to(at::kCPU, tensor.scalar_type(), /*non_blocking=*/false, /*copy=*/true);
    {
      const std::lock_guard lock(place_->mutex);
      place_->sent[{member_, to}].push_back(copy);
    }
    place_->changed.notify_all();
  }
  void take(const at::Tensor& tensor, int from, const std::string& doing) {
    std::deque<at::Tensor>& queue = queue_from(from);
    wait_until([&] { return !queue.empty(); }, doing);
    at::Tensor copy;
    {
      const std::lock_guard lock(place_->mutex);
      copy = queue.front();
      queue.pop_front();
    }
    place_->changed.notify_all();
    tensor.copy_(copy);
  }
  std::deque<at::Tensor>& queue_from(int from) {
    const std::lock_guard lock(place_->mutex);
    return place_->sent[{from, member_}];
  }
  void wait_until_taken(const std::string& doing) {
    const auto all_taken = [&] {
      for (int q = 0; q < members_; ++q)
        if (!place_->sent[{member_, q}].empty()) return false;
      return true;
    };
    wait_until(all_taken, doing);
  }

  const std::shared_ptr<MeetingPlace> place_;
  const int member_, members_;
  const LinkPatience patience_;
};

class ThreadLinks final : public DeviceLinks {
 public:
  explicit ThreadLinks(c10::Device device) : device_(device) {}

  c10::Device device() const override { return device_; }
  std::string make_id() override {
    static std::atomic<int> made = 0;
    return "link " + std::to_string(made++);
  }
  std::unique_ptr<DeviceLink> connect(const std::string& id, int member, int members,
                                      const LinkPatience& patience) override {
    std::shared_ptr<MeetingPlace> place;
    {
      const std::lock_guard lock(mutex());
      std::shared_ptr<MeetingPlace>& found = places()[id];
      if (!found) found = std::make_shared<MeetingPlace>();
      place = found;
    }
    return std::make_unique<ThreadLink>(std::move(place), member, members, patience);
  }
  WorkBefore work_before() override { return nullptr; }

 private:
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::map<std::string, std::shared_ptr<MeetingPlace>>& places() {
    static std::map<std::string, std::shared_ptr<MeetingPlace>> all;
    return all;
  }
  const c10::Device device_;
};

}  // namespace trireme::test_support

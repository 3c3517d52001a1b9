// Work of a GPU beside that of its worker's thread, and how one waits for the other. On other devices it all does
// nothing, or waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace trireme {

/// While it exists, what this thread asks of its worker's GPU is computed beside what the worker's other threads ask of
/// it. Belongs to one thread.
class SideStream {
 public:
  SideStream();

 private:
  std::shared_ptr<void> guard_;  // null on other devices
};

/// What the thread that makes it has asked of its worker's device so far. Making it does not wait for a GPU. (Devices
/// of tests are waited for.)
class EarlierWork {
 public:
  EarlierWork();
  /// What this thread, another one, asks of the same device from now on begins after that work.
  void precede() const;

 private:
  std::shared_ptr<void> event_;  // null on other devices
};

/// For a tensor that was made on a SideStream and is used by this thread from now on: its memory is used for another
/// tensor only after what this thread has asked for until it is freed.
void use_here(const at::Tensor& tensor);

}  // namespace trireme

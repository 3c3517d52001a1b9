#include "support/strict_memory.h"

#include <c10/util/Exception.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "base/memory.h"
#include "support/strict_device.h"

namespace trireme::test {

struct StrictBlock {
  char* base;
  size_t pages_bytes;  // whole pages
  size_t bytes;        // as asked for
  int device;
  int users = 0;
  bool is_new = true;  // not yet filled
  bool is_freed = false;
};

namespace {

constexpr size_t kAddressesPerDevice = size_t(16) << 30;
constexpr size_t kAddresses = kAddressesPerDevice * kStrictDevices;
constexpr int kNotInitialised = 0xff;  // NaN as a float, -1 as an integer: new GPU memory is not zero either

// All blocks lie in one reserved range, so that the signal handler finds a block's device without a lock, and nothing
// else gets the addresses of a freed block.
char* first_address = nullptr;
struct sigaction former_action;
thread_local int current_device = 0;

struct Usage {
  std::atomic<int64_t> bytes{0};
  std::atomic<int64_t> peak{0};
};
Usage usage[kStrictDevices];

void map_without_access(char* address, size_t bytes) {
  void* mapped = mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  TORCH_CHECK(mapped == address, "strict device: mmap failed: ", strerror(errno));
}

void set_access(const StrictBlock& block, int protection) {
  TORCH_CHECK(mprotect(block.base, block.pages_bytes, protection) == 0,
              "strict device: mprotect failed: ", strerror(errno), " (perhaps more blocks than vm.max_map_count)");
}

/// The blocks of all devices. Thread-safe.
class BlockTable {
 public:
  StrictBlock* allocate(size_t bytes, int device);
  void free(const char* base);
  std::shared_ptr<StrictBlock> open(const void* address);
  void close(StrictBlock& block);

 private:
  char* free_addresses(size_t bytes, int device);

  std::mutex mutex_;
  std::map<const char*, std::shared_ptr<StrictBlock>> blocks_;  // by base
  size_t next_[kStrictDevices] = {};                            // where to search next, so that addresses return late
};

BlockTable& block_table() {
  static BlockTable& table = *new BlockTable;  // never destroyed: static tensors may be freed after it
  return table;
}

char* BlockTable::free_addresses(size_t bytes, int device) {
  char* const begin = first_address + size_t(device) * kAddressesPerDevice;
  char* const end = begin + kAddressesPerDevice;
  char* at = begin + next_[device];
  for (int round = 0; round < 2; ++round, at = begin) {
    for (auto block = blocks_.lower_bound(at); size_t(end - at) >= bytes; ++block) {
      if (block == blocks_.end() || size_t(block->first - at) >= bytes) {
        next_[device] = size_t(at + bytes - begin);
        return at;
      }
      at = std::min(end, block->second->base + block->second->pages_bytes);
    }
  }
  TORCH_CHECK(false, "strict device: no addresses are left for ", bytes, " bytes on device ", device);
}

StrictBlock* BlockTable::allocate(size_t bytes, int device) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  const size_t pages_bytes = (bytes + page - 1) / page * page;
  std::lock_guard lock(mutex_);
  auto block = std::make_shared<StrictBlock>(StrictBlock{
      .base = free_addresses(pages_bytes, device), .pages_bytes = pages_bytes, .bytes = bytes, .device = device});
  blocks_[block->base] = block;
  Usage& used = usage[device];
  used.bytes += int64_t(bytes);
  used.peak = std::max<int64_t>(used.peak, used.bytes);
  note_block(uintptr_t(block->base), int64_t(bytes));
  return block.get();
}

void BlockTable::free(const char* base) {
  std::lock_guard lock(mutex_);
  const auto found = blocks_.find(base);
  TORCH_INTERNAL_ASSERT(found != blocks_.end());
  StrictBlock& block = *found->second;
  block.is_freed = true;
  map_without_access(block.base, block.pages_bytes);
  usage[block.device].bytes -= int64_t(block.bytes);
  forget_block(uintptr_t(base));
  blocks_.erase(found);
}

std::shared_ptr<StrictBlock> BlockTable::open(const void* address) {
  std::lock_guard lock(mutex_);
  auto found = blocks_.upper_bound(static_cast<const char*>(address));
  TORCH_CHECK(found != blocks_.begin(), "strict device: a tensor's memory is not the device's");
  const std::shared_ptr<StrictBlock>& block = (--found)->second;
  TORCH_CHECK(static_cast<const char*>(address) < block->base + block->pages_bytes,
              "strict device: a tensor's memory is not the device's, or was freed");
  if (block->users == 0) set_access(*block, PROT_READ | PROT_WRITE);
  ++block->users;
  if (std::exchange(block->is_new, false)) std::memset(block->base, kNotInitialised, block->bytes);
  return block;
}

void BlockTable::close(StrictBlock& block) {
  std::lock_guard lock(mutex_);
  if (--block.users == 0 && !block.is_freed) set_access(block, PROT_NONE);
}

class StrictAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) const override {
    const int device = current_device;
    if (bytes == 0) return {nullptr, strict_device(device)};
    char* base = block_table().allocate(bytes, device)->base;
    return {base, base, &free_block, strict_device(device)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }

 private:
  static void free_block(void* base) {
    if (base) block_table().free(static_cast<char*>(base));
  }
};

void on_segmentation_fault(int signal_number, siginfo_t* info, void* context) {
  const uintptr_t offset = uintptr_t(info->si_addr) - uintptr_t(first_address);
  if (offset < kAddresses) {
    char line[] = "strict device: the host touched memory of device N at a place where no kernel runs\n";
    *std::strchr(line, 'N') = char('0' + offset / kAddressesPerDevice);
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line, sizeof(line) - 1);
    signal(SIGSEGV, SIG_DFL);  // the access happens again and ends the process
  } else if (former_action.sa_flags & SA_SIGINFO) {
    former_action.sa_sigaction(signal_number, info, context);
  } else if (former_action.sa_handler == SIG_DFL || former_action.sa_handler == SIG_IGN) {
    signal(SIGSEGV, SIG_DFL);
  } else {
    former_action.sa_handler(signal_number);
  }
}

}  // namespace

OpenBlocks::~OpenBlocks() {
  for (const std::shared_ptr<StrictBlock>& block : blocks_) block_table().close(*block);
}

void OpenBlocks::open(const void* address) {
  if (address) blocks_.push_back(block_table().open(address));
}

int current_strict_device() noexcept { return current_device; }
void set_current_strict_device(int index) noexcept { current_device = index; }

c10::Allocator* strict_allocator() {
  static StrictAllocator& allocator = *new StrictAllocator;
  return &allocator;
}

void install_strict_memory() {
  void* mapped = mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TORCH_CHECK(mapped != MAP_FAILED, "strict device: cannot reserve addresses: ", strerror(errno));
  first_address = static_cast<char*>(mapped);
  struct sigaction action = {};
  action.sa_sigaction = &on_segmentation_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  TORCH_CHECK(sigaction(SIGSEGV, &action, &former_action) == 0, "strict device: sigaction failed");
}

int64_t strict_bytes(int index) { return usage[index].bytes; }
int64_t strict_peak_bytes(int index) { return usage[index].peak; }
void reset_strict_peak(int index) { usage[index].peak = usage[index].bytes.load(); }

}  // namespace trireme::test

#include "base/memory.h"

#include <atomic>
#include <cstring>
#include <mutex>
#include <new>
#include <unordered_map>

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include "base/units.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// One device's counters. `total` is kept beside the categories because it alone decides about limit and peak, with one
/// atomic operation. Relaxed order is sufficient: no other data is published through the counters.
struct alignas(64) Account {
  std::atomic<int64_t> total{0};
  std::atomic<int64_t> limit{0};
  std::atomic<int64_t> peak{0};
  std::array<std::atomic<int64_t>, kMemoryCategories> current{};
  std::array<std::atomic<int64_t>, kMemoryCategories> at_peak{};
};

std::array<Account, kMaxDevices> accounts;

thread_local MemoryCategory current_category = MemoryCategory::activations;

Account& account_of(int device) {
  check_internal(device >= 0 && device < kMaxDevices,
                 fmt::format("memory of device {} was requested; the devices are 0..{}", device, kMaxDevices - 1));
  return accounts[size_t(device)];
}

[[noreturn]] void fail_limit(int device, int64_t bytes, int64_t limit) {
  MemoryUse use = memory_use(device);
  throw MemoryLimitError(
      Blame::run, {.where = fmt::format("device {}", device),
                   .what = fmt::format("allocation of {} does not fit in device_memory = {}", format_bytes(bytes),
                                       format_bytes(limit)),
                   .why = "it holds " + describe_memory(use),
                   .next = "use a smaller batch, more micro-batches or a plan that splits the model"});
}

void raise_peak(Account& account, int64_t total) {
  int64_t peak = account.peak.load(kRelaxed);
  do {
    if (total <= peak) return;
  } while (!account.peak.compare_exchange_weak(peak, total, kRelaxed));
  // exact while only the device's own thread allocates and frees; concurrent frees by other threads make the split
  // inexact
  for (size_t c = 0; c < kMemoryCategories; ++c) account.at_peak[c].store(account.current[c].load(kRelaxed), kRelaxed);
}

/// Counts bytes that `total`, the account's sum, already contains.
void hold(Account& account, MemoryCategory category, int64_t bytes, int64_t total) {
  account.current[size_t(category)].fetch_add(bytes, kRelaxed);
  if (total > account.peak.load(kRelaxed)) raise_peak(account, total);
}

void add(int device, MemoryCategory category, int64_t bytes) {
  Account& account = accounts[size_t(device)];
  int64_t total = account.total.fetch_add(bytes, kRelaxed) + bytes;
  int64_t limit = account.limit.load(kRelaxed);
  if (limit > 0 && total > limit) {
    account.total.fetch_sub(bytes, kRelaxed);
    fail_limit(device, bytes, limit);
  }
  hold(account, category, bytes, total);
}

void subtract(int device, MemoryCategory category, int64_t bytes) {
  Account& account = accounts[size_t(device)];
  account.current[size_t(category)].fetch_sub(bytes, kRelaxed);
  account.total.fetch_sub(bytes, kRelaxed);
}

/// Precedes every block, so that free_block() knows the device and category. Its size equals libtorch's alignment, so
/// that the data remain aligned.
struct alignas(64) BlockHeader {
  int64_t bytes;
  int device;
  MemoryCategory category;
};
static_assert(sizeof(BlockHeader) == 64);

c10::Allocator& inner_allocator() {
  static c10::Allocator* inner = c10::GetDefaultCPUAllocator();
  return *inner;
}

void free_block(void* data) {
  if (data == nullptr) return;
  auto* header = static_cast<BlockHeader*>(data) - 1;
  if (header->device != kNoDevice) subtract(header->device, header->category, header->bytes);
  inner_allocator().raw_deallocate(header);
}

c10::DataPtr allocate_block(size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, nullptr, &free_block, cpu};
  int device = DeviceScope::current();
  if (device != kNoDevice && !place_of(device).is_cpu())
    device = kNoDevice;  // the memory of a GPU counts, not the host's
  const MemoryCategory category = current_category;
  if (device != kNoDevice) add(device, category, int64_t(bytes));
  void* block = nullptr;
  try {
    block = inner_allocator().raw_allocate(bytes + sizeof(BlockHeader));
  } catch (...) {
    if (device != kNoDevice) subtract(device, category, int64_t(bytes));
    throw;
  }
  auto* header = new (block) BlockHeader{int64_t(bytes), device, category};
  void* data = header + 1;
  return {data, data, &free_block, cpu};
}

/// The pure virtual functions of the base class differ between libtorch versions: allocate() is const or not,
/// copy_data() exists or not. Without `override` this class satisfies all of them.
class AccountingAllocator final : public c10::Allocator {
 public:
  // NOLINTNEXTLINE(modernize-use-override)
  c10::DataPtr allocate(size_t bytes) const { return allocate_block(bytes); }
  c10::DataPtr allocate(size_t bytes) { return allocate_block(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
  void copy_data(void* to, const void* from, std::size_t bytes) const { std::memcpy(to, from, bytes); }
};

}  // namespace

const char* name_of(MemoryCategory category) {
  static constexpr const char* kNames[] = {"weights", "gradients", "optimizer", "activations", "buffers"};
  return kNames[size_t(category)];
}

int64_t MemoryUse::total() const {
  int64_t sum = 0;
  for (int64_t bytes : current) sum += bytes;
  return sum;
}

namespace {

/// Blocks that other allocators have noted, by address.
struct NotedBlocks {
  struct Block {
    int device;
    MemoryCategory category;
    int64_t bytes;
  };
  std::mutex mutex;
  std::unordered_map<uintptr_t, Block> by_address;
};

NotedBlocks& noted_blocks() {
  static auto* const blocks = new NotedBlocks;  // never destroyed: tensors in static storage may be freed last
  return *blocks;
}

}  // namespace

void note_block(uintptr_t address, int64_t bytes) noexcept {
  const int device = DeviceScope::current();
  if (device == kNoDevice) return;
  Account& account = accounts[size_t(device)];
  hold(account, current_category, bytes, account.total.fetch_add(bytes, kRelaxed) + bytes);
  NotedBlocks& blocks = noted_blocks();
  const std::lock_guard lock(blocks.mutex);
  blocks.by_address[address] = {device, current_category, bytes};
}

void forget_block(uintptr_t address) noexcept {
  NotedBlocks& blocks = noted_blocks();
  const std::lock_guard lock(blocks.mutex);
  const auto block = blocks.by_address.find(address);
  if (block == blocks.by_address.end()) return;
  subtract(block->second.device, block->second.category, block->second.bytes);
  blocks.by_address.erase(block);
}

void check_memory_limit() {
  const int device = DeviceScope::current();
  if (device == kNoDevice) return;
  const Account& account = accounts[size_t(device)];
  const int64_t limit = account.limit.load(kRelaxed), total = account.total.load(kRelaxed);
  if (limit > 0 && total > limit) fail_limit(device, total - limit, limit);
}

void install_memory_accounting() {
  static std::once_flag once;
  std::call_once(once, [] {
    inner_allocator();
    // never destroyed: tensors in static storage may outlive all static objects of Trireme
    constexpr uint8_t kAboveDefault = 1;
    static auto* const allocator = new AccountingAllocator;
    c10::SetCPUAllocator(allocator, kAboveDefault);
  });
}

MemoryScope::MemoryScope(MemoryCategory category) : previous_(current_category) { current_category = category; }

MemoryScope::~MemoryScope() { current_category = previous_; }

MemoryUse memory_use(int device) {
  const Account& account = account_of(device);
  MemoryUse use;
  for (size_t c = 0; c < kMemoryCategories; ++c) {
    use.current[c] = account.current[c].load(kRelaxed);
    use.at_peak[c] = account.at_peak[c].load(kRelaxed);
  }
  use.peak = account.peak.load(kRelaxed);
  return use;
}

void reset_memory_peak(int device) {
  Account& account = account_of(device);
  account.peak.store(account.total.load(kRelaxed), kRelaxed);
  for (size_t c = 0; c < kMemoryCategories; ++c) account.at_peak[c].store(account.current[c].load(kRelaxed), kRelaxed);
}

void set_memory_limit(int device, int64_t bytes) { account_of(device).limit.store(bytes, kRelaxed); }

void charge_memory(int device, MemoryCategory category, int64_t bytes) {
  account_of(device);
  if (bytes >= 0) add(device, category, bytes);
  else subtract(device, category, -bytes);
}

std::string describe_memory(const MemoryUse& use) {
  std::string text;
  for (size_t c = 0; c < kMemoryCategories; ++c) {
    if (use.current[c] == 0) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name_of(MemoryCategory(c)), format_bytes(use.current[c]));
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace trireme

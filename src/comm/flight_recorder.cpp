#include "comm/flight_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/mutex.h"
#include "base/seconds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kBeforeAll = "before the first step";

constexpr uint64_t kMagic = 0x32636572656d6972;  // "rimerec2": identifies this layout
// attempts to read between two changes; a writer that is frozen during a change never completes it
constexpr int kAttempts = 1000;
constexpr std::chrono::milliseconds kBeat{100};
constexpr double kLongestLook = 0.5;  // a longer pause between two calls of look() is due to this process itself

/// A text in words that are read and written one by one. A reader may see a partly changed text, but never reads past
/// its end.
template <size_t kBytes>
class SharedText {
 public:
  void set(std::string_view text) {
    std::array<char, kBytes> bytes;
    const size_t length = std::min(text.size(), kBytes - 1), words = length / sizeof(uint64_t) + 1;
    std::memset(bytes.data() + (words - 1) * sizeof(uint64_t), 0, sizeof(uint64_t));
    std::memcpy(bytes.data(), text.data(), length);
    for (size_t w = 0; w < words; ++w) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + w * sizeof word, sizeof word);
      words_[w].store(word, std::memory_order_release);
    }
  }
  void set(const SharedText& other) {
    for (size_t w = 0; w < words_.size(); ++w)
      words_[w].store(other.words_[w].load(std::memory_order_relaxed), std::memory_order_release);
  }
  std::string get() const {
    std::array<char, kBytes> bytes;
    for (size_t w = 0; w < words_.size(); ++w) {
      const uint64_t word = words_[w].load(std::memory_order_acquire);
      std::memcpy(bytes.data() + w * sizeof word, &word, sizeof word);
    }
    return {bytes.data(), ::strnlen(bytes.data(), kBytes)};
  }

 private:
  std::array<std::atomic<uint64_t>, kBytes / sizeof(uint64_t)> words_;
};

struct RecordedLine {
  std::atomic<uint64_t> number;
  std::atomic<bool> running;
  std::atomic<int64_t> step;
  SharedText<96> instruction;
  SharedText<256> operation;
};

// null: the operations belong where the rank's main thread is
thread_local const FlightRecorder::Place* place_of_operations = nullptr;

std::string place_of(int64_t step, const std::string& doing) {
  const std::string place = step == 0 ? kBeforeAll : fmt::format("step {}", step);
  return doing.empty() ? place : fmt::format("{}, {}", place, doing);
}

}  // namespace

/// Shared memory, initially zeros. `version` is odd during a change.
struct RecorderPage {
  std::atomic<uint64_t> magic;
  std::atomic<uint64_t> heartbeats;
  std::atomic<uint64_t> version;
  std::atomic<int64_t> step;
  std::atomic<double> step_began, longest_step;
  std::atomic<uint64_t> operations;  ///< number of operations begun
  SharedText<96> instruction, long_work;
  std::array<RecordedLine, FlightRecorder::kOperations> last;  ///< operation k is at index k modulo kOperations
  SharedText<1024> run_folder;
  std::atomic<bool> interrupted;
};

namespace {

class TRIREME_SCOPED_CAPABILITY Change {
 public:
  Change(RecorderPage& page, Mutex& mutex) TRIREME_ACQUIRE(mutex) : lock_(mutex), version_(page.version) { step(); }
  ~Change() TRIREME_RELEASE() { step(); }

 private:
  void step() { version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  const MutexLock lock_;
  std::atomic<uint64_t>& version_;
};

RankRecord copy_of(const RecorderPage& page) {
  RankRecord record;
  record.heartbeats = page.heartbeats.load(std::memory_order_acquire);
  record.step = page.step.load(std::memory_order_acquire);
  record.instruction = page.instruction.get();
  record.long_work = page.long_work.get();
  const uint64_t begun = page.operations.load(std::memory_order_acquire);
  const auto line = [&](uint64_t k) -> const RecordedLine& { return page.last[k % page.last.size()]; };
  for (uint64_t k = begun - std::min<uint64_t>(begun, page.last.size()); k < begun; ++k) {
    const std::string operation = line(k).operation.get(), instruction = line(k).instruction.get();
    record.last.push_back(
        fmt::format("{}: {}", place_of(line(k).step.load(std::memory_order_acquire), instruction), operation));
    if (!line(k).running.load(std::memory_order_acquire)) continue;
    record.operation += (record.operation.empty() ? "" : " and ") + operation;
    if (instruction != record.instruction && !instruction.empty()) record.operation += " for " + instruction;
  }
  record.run_folder = page.run_folder.get();
  record.interrupted = page.interrupted.load(std::memory_order_acquire);
  return record;
}

RecorderPage* map(int file) {
  void* memory = ::mmap(nullptr, sizeof(RecorderPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    fail_run({"the flight recorder", "cannot be mapped", std::strerror(errno), "close other programs and try again"});
  return static_cast<RecorderPage*>(memory);
}

}  // namespace

std::string standing(const RankRecord& record) {
  const std::string place = place_of(record.step, record.long_work.empty() ? record.instruction : record.long_work);
  return record.operation.empty() ? place : fmt::format("{}, in {}", place, record.operation);
}

std::string where_of(const std::string& standing) {
  return standing.starts_with(kBeforeAll) ? standing : "in " + standing;
}

FlightRecorder::FlightRecorder() : file_(::memfd_create("trireme-recorder", MFD_CLOEXEC)) {
  if (file_ < 0 || ::ftruncate(file_, sizeof(RecorderPage)) != 0)
    fail_run({"the flight recorder", "cannot be made", std::strerror(errno), "close other programs and try again"});
  page_ = map(file_);
  page_->magic = kMagic;
}

FlightRecorder::FlightRecorder(int file) : file_(::fcntl(file, F_DUPFD_CLOEXEC, 0)) {
  struct stat about {};
  const bool fits = file_ >= 0 && ::fstat(file_, &about) == 0 && about.st_size == off_t(sizeof(RecorderPage));
  if (fits) page_ = map(file_);
  if (fits && page_->magic == kMagic) return;
  if (fits) ::munmap(page_, sizeof(RecorderPage));
  if (file_ >= 0) ::close(file_);
  fail_run({"the flight recorder", fmt::format("descriptor {}", file),
            "is not a flight recorder of this version of trireme",
            "start the ranks with the launcher of the same version"});
}

FlightRecorder::~FlightRecorder() {
  ::munmap(page_, sizeof(RecorderPage));
  ::close(file_);
}

void FlightRecorder::begin_step(int64_t step) {
  const double now = steady_seconds(), began = page_->step_began;
  if (began > 0 && step == page_->step + 1) page_->longest_step = std::max(page_->longest_step.load(), now - began);
  const Change change(*page_, mutex_);
  page_->step_began.store(now, std::memory_order_release);
  page_->step.store(step, std::memory_order_release);
  page_->instruction.set("");
}

void FlightRecorder::begin_instruction(std::string_view instruction) {
  const Change change(*page_, mutex_);
  page_->instruction.set(instruction);
}

FlightRecorder::Place FlightRecorder::place() const {
  return {page_->step.load(std::memory_order_relaxed), page_->instruction.get()};
}

void FlightRecorder::set_long_work(std::string_view what) {
  const Change change(*page_, mutex_);
  page_->long_work.set(what);
}

uint64_t FlightRecorder::begin_operation(std::string_view operation) {
  const Change change(*page_, mutex_);
  const uint64_t number = page_->operations.load(std::memory_order_relaxed);
  RecordedLine& line = page_->last[number % page_->last.size()];
  line.number.store(number, std::memory_order_release);
  line.running.store(true, std::memory_order_release);
  if (const Place* place = place_of_operations) {
    line.step.store(place->step, std::memory_order_release);
    line.instruction.set(place->instruction);
  } else {
    line.step.store(page_->step.load(std::memory_order_relaxed), std::memory_order_release);
    line.instruction.set(page_->instruction);
  }
  line.operation.set(operation);
  page_->operations.store(number + 1, std::memory_order_release);
  return number;
}

void FlightRecorder::end_operation(uint64_t number) {
  const Change change(*page_, mutex_);
  RecordedLine& line = page_->last[number % page_->last.size()];
  if (line.number.load(std::memory_order_relaxed) == number) line.running.store(false, std::memory_order_release);
}

void FlightRecorder::set_run_folder(const std::string& folder) { page_->run_folder.set(folder); }

void FlightRecorder::set_interrupted() { page_->interrupted.store(true, std::memory_order_release); }

void FlightRecorder::beat() {
  const double now = steady_seconds(), before = beaten_.exchange(now);
  if (before > 0) longest_pause_ = std::max(longest_pause_.load(), now - before);
  page_->heartbeats.fetch_add(1, std::memory_order_release);
}

void FlightRecorder::retire() { page_->heartbeats.store(0, std::memory_order_release); }

RankRecord FlightRecorder::read() const {
  for (int attempt = 1;; ++attempt) {
    const uint64_t before = page_->version.load(std::memory_order_acquire);
    RankRecord record = copy_of(*page_);
    record.changes = before;
    const bool whole = before % 2 == 0 && page_->version.load(std::memory_order_acquire) == before;
    if (whole || attempt == kAttempts) return record;
  }
}

uint64_t FlightRecorder::heartbeats() const { return page_->heartbeats.load(std::memory_order_acquire); }

double FlightRecorder::longest_step() const { return page_->longest_step; }

OperationsOf::OperationsOf(FlightRecorder::Place place) : place_(std::move(place)), before_(place_of_operations) {
  place_of_operations = &place_;
}

OperationsOf::~OperationsOf() { place_of_operations = before_; }

LongWork::LongWork(FlightRecorder* recorder, std::string_view what) : recorder_(recorder) {
  if (recorder_) recorder_->set_long_work(what);
}

LongWork::~LongWork() {
  if (recorder_) recorder_->set_long_work("");
}

Heartbeat::Heartbeat(std::shared_ptr<FlightRecorder> recorder) : recorder_(std::move(recorder)) {
  recorder_->beat();
  thread_ = std::thread([this] {
    MutexLock lock(mutex_);
    while (!changed_.wait_for(mutex_, kBeat, [this]() TRIREME_REQUIRES(mutex_) { return stopped_; })) recorder_->beat();
  });
}

Heartbeat::~Heartbeat() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
  recorder_->retire();
}

void SilenceMeter::look(uint64_t heard, double now) {
  if (heard != heard_ || heard == 0) silent_ = 0;
  else if (looked_ >= 0) silent_ += std::min(now - looked_, kLongestLook);
  heard_ = heard;
  looked_ = now;
}

}  // namespace trireme

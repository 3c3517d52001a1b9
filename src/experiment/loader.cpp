#include "experiment/loader.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <span>

#include "base/seconds.h"
#include "trireme/error.h"

namespace trireme {
namespace {

// Samples that a thread loads at a time. A batch is ready sooner if several threads work on it.
constexpr int64_t kChunkSamples = 16;
constexpr int64_t kMostAhead = 64;  // largest number of batches loaded ahead, however small they are
constexpr auto kPoll = std::chrono::milliseconds(50);

std::span<const int64_t> part_of(const std::vector<int64_t>& indices, Range range) {
  return std::span(indices).subspan(size_t(range.begin), size_t(range.size()));
}

at::Tensor joined(const std::vector<at::Tensor>& parts, int64_t samples, bool pinned) {
  if (!pinned) return at::cat(parts);
  std::vector<int64_t> sizes = parts.front().sizes().vec();
  sizes[0] = samples;
  at::Tensor all = at::empty(sizes, parts.front().options().pinned_memory(true), parts.front().suggest_memory_format());
  at::cat_out(all, parts);
  return all;
}

}  // namespace

struct Loader::Chunk {
  Range samples;  ///< within the batch
  bool ready = false;
  Samples loaded;
};

struct Loader::Loading {
  int64_t number;  ///< among all batches
  PlannedBatch plan;
  std::vector<Chunk> chunks;
  std::vector<size_t> to_load;  ///< chunks that readers want
  size_t claimed = 0;           ///< number of entries of to_load that a thread has begun
  int takers = 0;               ///< readers that have taken it
  std::exception_ptr error;

  Loading(int64_t number, PlannedBatch planned, const LoaderOptions& options)
      : number(number), plan(std::move(planned)) {
    const int64_t samples = this->samples();
    const std::vector<Range> wanted = options.wanted ? options.wanted(samples) : std::vector<Range>{{0, samples}};
    for (int64_t begin = 0; begin < samples; begin += kChunkSamples) {
      const Range chunk{begin, std::min(samples, begin + kChunkSamples)};
      if (std::any_of(wanted.begin(), wanted.end(),
                      [&](const Range& range) { return range.begin < chunk.end && chunk.begin < range.end; }))
        to_load.push_back(chunks.size());
      chunks.push_back({chunk, false, {}});
    }
  }
  int64_t samples() const { return int64_t(plan.indices.size()); }
  CopiesAhead::Kind kind() const { return {plan.set.get(), samples()}; }
};

Loader::Loader(std::function<std::optional<PlannedBatch>()> plan, const LoaderOptions& options,
               std::function<std::string()> stop_reason)
    : plan_(std::move(plan)),
      options_(options),
      stop_reason_(std::move(stop_reason)),
      load_seconds_(size_t(options.readers)),
      taken_(size_t(options.readers)) {
  try {
    for (const int device : options.devices) copies_.push_back(std::make_unique<CopiesAhead>(device));
    for (int i = 0; i < options.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

Loader::~Loader() { stop(); }

void Loader::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = stopped_ = true;
  }
  work_changed_.notify_all();
  for (std::thread& thread : threads_)
    if (thread.joinable()) thread.join();
}

/// Plans the next batch. Returns false if there are no more.
bool Loader::plan_one() {
  if (ended_) return false;
  std::optional<PlannedBatch> planned;
  try {
    planned = plan_();
  } catch (...) {  // rethrown to the reader that reaches this batch
    plan_error_ = std::current_exception();
  }
  ended_ = !planned;
  if (ended_) return false;
  batches_.push_back(std::make_shared<Loading>(first_ + int64_t(batches_.size()), std::move(*planned), options_));
  if (options_.threads > 0 && !batches_.back()->to_load.empty()) to_load_.push_back(batches_.back());
  return true;
}

std::shared_ptr<Loader::Loading> Loader::next_for(int reader) {
  MutexLock lock(mutex_);
  const int64_t number = taken_[size_t(reader)]++;
  while (number >= first_ + int64_t(batches_.size())) {
    if (plan_one()) continue;
    if (plan_error_) std::rethrow_exception(plan_error_);
    check_internal(false, "no worker takes more batches than were planned");
  }
  std::shared_ptr<Loading> batch = batches_[size_t(number - first_)];
  ++batch->takers;
  while (!batches_.empty() && batches_.front()->takers == options_.readers) {
    batches_.pop_front();
    ++first_;
  }
  work_changed_.notify_all();
  return batch;
}

/// Begins to copy the batch after the one that the reader uses next.
void Loader::copy_ahead(int reader) {
  std::shared_ptr<Loading> next;
  {
    const MutexLock lock(mutex_);
    const int64_t number = taken_[size_t(reader)];
    if (number < first_ + int64_t(batches_.size()) || plan_one()) next = batches_[size_t(number - first_)];
  }
  if (!next) return;
  copies_[size_t(reader)]->begin(next->number, next->kind(), [this, next](Range range, bool pinned) {
    return collect(*next, range, pinned, /*until_stopped=*/true);
  });
}

Batch Loader::take(int reader) {
  std::shared_ptr<Loading> batch = next_for(reader);
  const int64_t samples = batch->samples();
  std::shared_ptr<const Model> model = batch->plan.model;
  CopiesAhead* const ahead = copies_.empty() ? nullptr : copies_[size_t(reader)].get();
  if (ahead) {
    const double begin = steady_seconds();
    copy_ahead(reader);  // waits until this batch is copied
    load_seconds_[size_t(reader)] += steady_seconds() - begin;
  }
  auto load = [this, reader, ahead, batch = std::move(batch)](Range range) {
    const double begin = steady_seconds();
    const auto here = [&](Range part, bool pinned) { return collect(*batch, part, pinned, /*until_stopped=*/false); };
    std::vector<at::Tensor> tensors =
        ahead ? ahead->take(batch->number, batch->kind(), range, here) : here(range, /*pinned=*/false);
    load_seconds_[size_t(reader)] += steady_seconds() - begin;
    return tensors;
  };
  return {samples, load, std::move(model)};
}

double Loader::take_load_seconds(int reader) { return std::exchange(load_seconds_[size_t(reader)], 0.0); }

/// True if one more batch that no reader has requested may be started.
bool Loader::may_load_ahead() const {
  int64_t waiting = 0, bytes = 0;
  for (const auto& batch : batches_) {
    if (batch->takers > 0) continue;
    ++waiting;
    bytes += batch->samples() * bytes_per_sample_;
  }
  if (waiting == 0) return true;
  return bytes_per_sample_ > 0 && waiting < kMostAhead && bytes + bytes / waiting <= options_.ahead_bytes;
}

/// Claims the first chunk that no thread has begun, of a planned batch or of the next one. Returns false if there is
/// none.
bool Loader::claim(std::shared_ptr<Loading>& batch, size_t& chunk) {
  if (to_load_.empty() && (!may_load_ahead() || !plan_one() || to_load_.empty())) return false;
  batch = to_load_.front();
  chunk = batch->to_load[batch->claimed++];
  if (batch->claimed == batch->to_load.size()) to_load_.pop_front();
  return true;
}

void Loader::work() {
  // A thread's first parallel operator would set its number of threads to the last one that any thread set. This call
  // does that now, before the number is set to 1.
  at::get_num_threads();
  at::set_num_threads(1);
  MutexLock lock(mutex_);
  while (true) {
    std::shared_ptr<Loading> batch;
    size_t chunk = 0;
    work_changed_.wait(mutex_, [&]() TRIREME_REQUIRES(mutex_) { return stopping_ || claim(batch, chunk); });
    if (stopping_) return;
    const Range range = batch->chunks[chunk].samples;
    lock.unlock();
    Samples samples;
    std::exception_ptr error;
    try {
      samples = batch->plan.set->get(part_of(batch->plan.indices, range), batch->plan.draw);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) {
      batch->error = error;
      stopping_ = true;
      work_changed_.notify_all();
    } else {
      bytes_per_sample_ = std::max<int64_t>(1, int64_t(samples.data.nbytes() + samples.target.nbytes()) / range.size());
      batch->chunks[chunk].loaded = std::move(samples);
      batch->chunks[chunk].ready = true;
    }
    chunks_changed_.notify_all();
  }
}

/// Waits until the chunks [first, end) are loaded. `until_stopped`: at most until stop().
void Loader::await(Loading& batch, size_t first, size_t end, bool until_stopped) {
  MutexLock lock(mutex_);
  const auto ready = [&] {
    return std::all_of(batch.chunks.begin() + std::ptrdiff_t(first), batch.chunks.begin() + std::ptrdiff_t(end),
                       [](const Chunk& chunk) { return chunk.ready; });
  };
  while (!ready()) {
    if (batch.error) std::rethrow_exception(batch.error);
    if (until_stopped && stopped_) throw StoppedError({"copying samples ahead", "stopped", "", ""});
    if (const std::string reason = stop_reason_(); !reason.empty())
      throw StoppedError({"waiting for data", "stopped", reason, ""});
    chunks_changed_.wait_for(mutex_, kPoll);
  }
}

std::vector<at::Tensor> Loader::collect(Loading& batch, Range range, bool pinned, bool until_stopped) {
  const PlannedBatch& plan = batch.plan;
  if (options_.threads == 0 || range.empty()) {
    Samples samples = plan.set->get(part_of(plan.indices, range), plan.draw);
    if (pinned) return {samples.data.pin_memory(), samples.target.pin_memory()};
    return {samples.data, samples.target};
  }
  const auto first = size_t(range.begin / kChunkSamples), end = size_t((range.end + kChunkSamples - 1) / kChunkSamples);
  await(batch, first, end, until_stopped);
  std::vector<at::Tensor> data, targets;
  for (size_t c = first; c < end; ++c) {
    const Chunk& chunk = batch.chunks[c];
    const Range part{std::max(range.begin, chunk.samples.begin), std::min(range.end, chunk.samples.end)};
    data.push_back(chunk.loaded.data.narrow(0, part.begin - chunk.samples.begin, part.size()));
    targets.push_back(chunk.loaded.target.narrow(0, part.begin - chunk.samples.begin, part.size()));
  }
  return {joined(data, range.size(), pinned), joined(targets, range.size(), pinned)};
}

}  // namespace trireme

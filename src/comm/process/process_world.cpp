#include "comm/process/process_world.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "base/text.h"
#include "trireme/error.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;

constexpr int kPayloadTags = 1 << 29;  // of each kind, reused after that many payloads to one rank
// beyond this, a payload remains with its sender until take() requests it
constexpr int64_t kUnclaimedBytes = 256 << 20;

// between two reports of a waiting rank; shorter if the timeout is short
constexpr milliseconds kWaitingInterval{1000};
// added to the timeout for a rank that itself waits, so that its peer's error comes first
constexpr milliseconds kGrace{3000};
constexpr milliseconds kMoment{1};  // for a transfer that has finished or never will
// for a rank that has left: payloads use a connection other than the one whose end is seen
constexpr milliseconds kLastBytes{2000};
constexpr milliseconds kForever{std::chrono::hours(24 * 365)};
constexpr double kStepsOfPatience = 20;

constexpr int kExpectedFrames = 8;  // of each rank

constexpr size_t kSentTogether = 32;          // this many frames are released at once,
constexpr milliseconds kReleaseInterval{50};  // or after this time

// Payloads with a posted receive have even tags, which the number of the receive determines; the others have odd ones.
int posted_tag(int64_t number) { return 2 + 2 * static_cast<int>(number % kPayloadTags); }

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

ProcessWorld::ProcessWorld(const WorldOptions& options, Connections connections)
    : options_(options),
      recorder_(options.recorder ? options.recorder : std::make_shared<FlightRecorder>()),
      signs_(std::make_shared<LifeSigns>(options, connections.keys_show_life, connections.ends_are_seen, recorder_)),
      ends_are_seen_(connections.ends_are_seen),
      posted_receives_(options.size),
      posted_by_others_(options.size),
      peers_(options.size) {
  transport_ = std::move(connections.transport);
  keeper_ = std::make_unique<AbortKeeper>(
      std::move(connections.keys), fmt::format("rank {}: the ranks' rendezvous, which rank 0 keeps, is gone", rank()),
      [this](const std::string& reason) { set_aborted(reason); },
      [signs = signs_](KeyStore& keys) { signs->exchange(keys); });
  for (int peer = 0; peer < size(); ++peer)
    if (peer != rank()) peers_[peer].reader = std::thread([this, peer] { read_frames(peer); });
  releaser_ = std::thread([this] { release_sent(); });
  watcher_ = std::thread([this] { watch(); });
}

ProcessWorld::~ProcessWorld() {
  if (std::uncaught_exceptions() > 0) abort(fmt::format("rank {} ended before its work was done", rank()));
  close_sends();
  part_from_others();
  const bool others_meet_here = rank() == 0 && options_.store_file.empty() && !options_.store_is_kept;
  if (!ends_are_seen_) leave();
  else if (others_meet_here) host_until_others_left();
  keeper_->stop();
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    for (Peer& peer : peers_)
      if (peer.reading) peer.reading->cancel();
    for (const auto& [transfer, peer] : waited_for_) transfer->cancel();
  }
  wake_all();
  for (Peer& peer : peers_)
    if (peer.reader.joinable()) peer.reader.join();
  releaser_.join();
  watcher_.join();
  sent_.clear();
  for (Peer& peer : peers_) peer.queues.clear();
}

milliseconds ProcessWorld::timeout() const {
  const double step = recorder_->longest_step();
  const double seconds =
      step > 0 ? std::max(options_.least_timeout_seconds, kStepsOfPatience * step) : options_.timeout_seconds;
  return milliseconds(std::max<int64_t>(1, static_cast<int64_t>(seconds * 1000)));
}

// ---- threads ----

void ProcessWorld::wake_all() {
  arrived_.notify_all();
  sending_.notify_all();
  ending_.notify_all();
  watching_.notify_all();
}

// ---- sending ----

int ProcessWorld::next_payload_tag(int to) {
  MutexLock lock(mutex_);
  return 1 + 2 * static_cast<int>(peers_[to].payloads++ % kPayloadTags);
}

std::unique_ptr<Transfer> ProcessWorld::send_frame(FrameHeader& header, const at::Tensor& data, int to) {
  const auto send = [&] {
    const at::Tensor frame = pack_frame(header, header.bytes > 0 ? data.data_ptr() : nullptr);
    return transport_->send(frame, to, kFrameTag);
  };
  if (header.bytes <= kInlineBytes) return send();
  if (header.kind != FrameKind::message || !transport_->waits_for_receivers()) {
    header.payload_tag = next_payload_tag(to);
    return send();
  }
  // the receiver must see the frames of messages in the order in which their posted receives are found here
  MutexLock lock(order_);
  PostedSizes& posted = posted_by_others_[to];
  const auto receive = posted.use(header.bytes);
  while (posted.post()) {
  }
  header.payload_tag = receive ? posted_tag(receive->number) : next_payload_tag(to);
  return send();
}

std::unique_ptr<Transfer> ProcessWorld::post(FrameHeader header, const at::Tensor& data, int to,
                                             const std::string& doing) {
  throw_if_aborted();
  const bool fits = header.bytes <= kInlineBytes;
  if (to == rank()) {
    Arrival arrival{header, {}, data, nullptr};
    deliver(to, std::move(arrival));
    return nullptr;
  }
  if (header.kind == FrameKind::collective) {
    MutexLock lock(mutex_);
    peers_[to].given[header.group] = header.tag;
  }
  try {
    std::unique_ptr<Transfer> of_frame = send_frame(header, data, to);
    std::unique_ptr<Transfer> of_payload;
    if (!fits) of_payload = transport_->send(flat_view(data), to, header.payload_tag);
    keep_until_sent({std::move(of_frame), to, doing});
    return of_payload;
  } catch (const std::exception& error) {
    fail_peer(doing, to, first_line(error));
  }
}

void ProcessWorld::post_and_forget(FrameHeader header, const at::Tensor& data, int to, const std::string& doing) {
  std::unique_ptr<Transfer> payload = post(header, data, to, doing);
  if (!payload) return;
  {
    MutexLock lock(mutex_);
    release_soon_ = true;  // its payload may hold much memory
  }
  keep_until_sent({std::move(payload), to, doing});
}

void ProcessWorld::keep_until_sent(Sent sent) {
  bool many = false;
  {
    MutexLock lock(mutex_);
    sent_.push_back(std::move(sent));
    many = release_soon_ || sent_.size() >= kSentTogether;
  }
  if (many) sending_.notify_all();  // waking the releaser for every short frame would cost more than sending it
}

void ProcessWorld::release_sent() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    sending_.wait_for(mutex_, kReleaseInterval, [&]() TRIREME_REQUIRES(mutex_) {
      return stopping_ || release_soon_ || sent_.size() >= kSentTogether || (closing_ && !sent_.empty());
    });
    release_soon_ = false;
    while (!stopping_ && !sent_.empty()) {
      Sent sent = std::move(sent_.front());
      sent_.pop_front();
      releasing_ = true;
      lock.unlock();
      release(std::move(sent));
      lock.lock();
      releasing_ = false;
    }
    sending_.notify_all();
  }
}

void ProcessWorld::release(Sent sent) {
  std::string trouble;
  try {
    if (!wait_registered(*sent.transfer, sent.to, kForever)) sent.transfer->wait(kMoment);
  } catch (const std::exception& error) {
    trouble = first_line(error);
  }
  if (trouble.empty() || !sent.matters) return;
  {
    MutexLock lock(mutex_);
    if (closing_ || aborted_) return;
  }
  abort(fmt::format("rank {}, {}: rank {} is gone: {}", rank(), sent.doing, sent.to, loss_in_words(trouble)));
}

// ---- receiving ----

// Several frames are expected at a time: gloo sends a frame when its receive was begun, so that a sender of several
// messages need not wait until this thread had a core in between.
void ProcessWorld::read_frames(int from) {
  struct Expected {
    at::Tensor frame;
    std::unique_ptr<Transfer> transfer;
  };
  try {
    std::deque<Expected> expected;
    const auto expect = [&](at::Tensor frame) {
      auto transfer = transport_->receive(frame, from, kFrameTag);
      expected.push_back({std::move(frame), std::move(transfer)});
    };
    const int count = transport_->waits_for_receivers() ? kExpectedFrames : 1;
    for (int i = 0; i < count; ++i) expect(empty_frame());
    while (wait_for_frame(from, *expected.front().transfer)) {
      Arrival arrival = unpack_frame(expected.front().frame);
      at::Tensor frame = std::move(expected.front().frame);
      expected.pop_front();
      if (!accept(from, std::move(arrival))) return;
      expect(std::move(frame));
    }
  } catch (const std::exception& error) {
    mark_gone(from, first_line(error));
  }
}

bool ProcessWorld::wait_for_frame(int from, Transfer& transfer) {
  {
    MutexLock lock(mutex_);
    if (stopping_) return false;
    peers_[from].reading = &transfer;
  }
  bool done = false;
  std::exception_ptr trouble;
  try {
    done = transfer.wait(kForever);
  } catch (...) {
    trouble = std::current_exception();
  }
  {
    MutexLock lock(mutex_);
    peers_[from].reading = nullptr;
  }
  if (trouble) std::rethrow_exception(trouble);
  return done;
}

bool ProcessWorld::accept(int from, Arrival arrival) {
  if (arrival.header.kind == FrameKind::abort) {
    set_aborted(std::string(arrival.inline_bytes.begin(), arrival.inline_bytes.end()));
    return true;
  }
  if (arrival.header.kind == FrameKind::waiting) {
    {
      MutexLock lock(mutex_);
      peers_[from].heard_waiting = Clock::now();
      peers_[from].waiting = arrival.header;
    }
    arrived_.notify_all();
    return true;
  }
  const DeviceScope device(options_.device);
  const bool has_payload = arrival.header.kind == FrameKind::message && arrival.header.payload_tag != 0;
  if (has_payload) begin_to_receive(from, arrival);
  if (arrival.header.kind == FrameKind::leaving || arrival.header.kind == FrameKind::seen_leaving)
    return note_leaving(from, arrival.header.kind);
  deliver(from, std::move(arrival));
  if (has_payload && transport_->waits_for_receivers()) post_receives(from);
  return true;
}

// Begins to receive a payload. If payloads of kUnclaimedBytes have arrived that no take() has requested, the payload
// stays with its sender for now.
void ProcessWorld::begin_to_receive(int from, Arrival& arrival) {
  const FrameHeader& h = arrival.header;
  const c10::IntArrayRef sizes(h.sizes, h.dims), strides(h.strides, h.dims);
  const auto dtype = static_cast<at::ScalarType>(h.dtype);
  if (transport_->waits_for_receivers()) {
    if (auto posted = posted_receives_[from].use(h.bytes)) {
      arrival.tensor = posted->bytes.view(dtype).as_strided(sizes, strides);
      arrival.transfer = std::move(posted->transfer);
      claim(arrival.tensor);
      return;
    }
  }
  if (!has_room(h.bytes)) return;
  arrival.tensor = at::empty_strided(sizes, strides, dtype);
  claim(arrival.tensor);
  arrival.transfer = transport_->receive(flat_view(arrival.tensor), from, h.payload_tag);
}

// Called after the frame was delivered, so that the frame is not lost if a receive cannot begin because the rank has
// closed its connections.
void ProcessWorld::post_receives(int from) {
  posted_receives_[from].post(has_room(2 * kPostedBytes), [&](const at::Tensor& bytes, int64_t number) {
    return transport_->receive(bytes, from, posted_tag(number));
  });
}

MessageBuffers ProcessWorld::buffers() const {
  MessageBuffers buffers{.inline_bytes = kInlineBytes};
  if (transport_->waits_for_receivers()) {
    buffers.posted = kPostedReceives;
    buffers.posted_bytes = kPostedBytes;
  }
  return buffers;
}

bool ProcessWorld::has_room(int64_t bytes) const {
  MutexLock lock(mutex_);
  return unclaimed_bytes_ + bytes <= kUnclaimedBytes;
}

void ProcessWorld::claim(const at::Tensor& tensor) {
  MutexLock lock(mutex_);
  unclaimed_bytes_ += int64_t(tensor.storage().nbytes());
}

void ProcessWorld::deliver(int from, Arrival arrival) {
  const FrameHeader& h = arrival.header;
  const Address address{h.kind, h.group, h.kind == FrameKind::message ? h.tag : 0};
  {
    MutexLock lock(mutex_);
    peers_[from].queues[address].push_back(std::move(arrival));
  }
  arrived_.notify_all();
}

// True if the peer waits for this rank's part of a call that this rank has not reached while this rank waits for the
// peer: neither can continue. Frames of a pair arrive in order, so everything that the peer sent before its report has
// been received.
bool ProcessWorld::waits_in_vain(const Peer& peer, const FrameHeader& own) const {
  const FrameHeader& waiting = peer.waiting;
  if (waiting.awaited != rank() || waiting.what != FrameKind::collective) return false;
  if (waiting.concurrent || own.concurrent) return false;  // another thread may continue
  const auto given = peer.given.find(waiting.group);
  return given == peer.given.end() || given->second < waiting.tag;
}

Arrival ProcessWorld::take(int from, FrameKind kind, int64_t group, int64_t tag, const std::string& doing,
                           double& waited) {
  const Address address{kind, group, kind == FrameKind::message ? tag : 0};
  const Clock::time_point start = Clock::now();
  Clock::time_point end = start + timeout();
  const milliseconds interval = std::min(kWaitingInterval, timeout() / 4);
  Clock::time_point next_word = start + interval;
  FrameHeader word;
  word.group = group;
  word.tag = tag;
  word.awaited = from;
  word.what = kind;
  std::map<int, uint64_t> progress;  // at the previous timeout
  MutexLock lock(mutex_);
  word.concurrent = beside_.contains(group);
  while (true) {
    if (aborted_) {
      lock.unlock();
      throw_if_aborted();
      lock.lock();
    }
    Peer& peer = peers_[from];
    if (const auto queue = peer.queues.find(address); queue != peer.queues.end()) {
      Arrival arrival = std::move(queue->second.front());
      queue->second.pop_front();
      if (queue->second.empty()) peer.queues.erase(queue);
      if (arrival.transfer) unclaimed_bytes_ -= int64_t(arrival.tensor.storage().nbytes());
      waited += seconds_between(start, Clock::now());
      return arrival;
    }
    if (peer.gone) {
      const std::string why = *peer.gone;
      lock.unlock();
      fail_peer(doing, from, why);
    }
    if (waits_in_vain(peer, word)) {
      const std::string others = peer.waiting.text;
      lock.unlock();
      fail_mismatch(doing, from, others);
    }
    if (Clock::now() > end + (is_waiting(peer) ? kGrace : milliseconds(0))) {
      lock.unlock();
      if (!has_moved(from, progress)) fail_silence(doing, from);
      end = Clock::now() + timeout();
      lock.lock();
      continue;
    }
    const auto next = std::min(next_word, end + milliseconds(1));
    if (arrived_.wait_until(mutex_, Clock::now() < end ? next : next_word) == std::cv_status::no_timeout) continue;
    if (Clock::now() < next_word) continue;
    next_word = Clock::now() + interval;
    lock.unlock();
    say_waiting(from, word, doing);
    lock.lock();
  }
}

// Writing to `awaited` also detects a connection that has ended in the middle of a frame.
void ProcessWorld::say_waiting(int awaited, const FrameHeader& header, const std::string& doing) {
  FrameHeader word = header;
  word.set_text(doing);
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank() || has_left(peer)) continue;
    try {
      keep_until_sent({transport_->send(pack_frame(word, nullptr), peer, kFrameTag), peer, doing, /*matters=*/false});
    } catch (const std::exception& error) {
      if (peer == awaited) fail_peer(doing, peer, first_line(error));
    }
  }
}

std::unique_ptr<Transfer> ProcessWorld::fetch(const Arrival& arrival, const at::Tensor& target, int from,
                                              const std::string& doing) {
  const FrameHeader& h = arrival.header;
  if (h.bytes == 0) return nullptr;
  if (h.payload_tag == 0) {
    const void* data = arrival.tensor.defined() ? arrival.tensor.data_ptr() : arrival.inline_bytes.data();
    std::memcpy(target.data_ptr(), data, h.bytes);
    return nullptr;
  }
  try {
    return transport_->receive(target, from, h.payload_tag);
  } catch (const std::exception& error) {
    fail_peer(doing, from, first_line(error));
  }
}

bool ProcessWorld::wait_registered(Transfer& transfer, int peer, milliseconds limit) {
  {
    MutexLock lock(mutex_);
    if (aborted_ || stopping_ || (peers_[peer].gone && !peers_[peer].left)) return false;
    waited_for_[&transfer] = peer;
  }
  bool done = false;
  std::exception_ptr trouble;
  try {
    done = transfer.wait(limit);
  } catch (...) {
    trouble = std::current_exception();
  }
  {
    MutexLock lock(mutex_);
    waited_for_.erase(&transfer);
  }
  if (trouble) std::rethrow_exception(trouble);
  return done;
}

void ProcessWorld::finish(std::unique_ptr<Transfer> transfer, int peer, const std::string& doing) {
  if (!transfer) return;
  const Clock::time_point end = Clock::now() + timeout();
  try {
    if (wait_registered(*transfer, peer, timeout())) return;
    throw_if_aborted();
    if (transfer->wait(kLastBytes)) return;  // the peer left after its last byte
    fail_peer(doing, peer, "the connection ended");
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    if (Clock::now() >= end) fail_silence(doing, peer);
    fail_peer(doing, peer, first_line(error));
  }
}

void ProcessWorld::work_beside(int64_t group) {
  MutexLock lock(mutex_);
  beside_.insert(group);
}

void ProcessWorld::register_group(int64_t id, const std::string& members) {
  MutexLock lock(mutex_);
  const auto [place, is_new] = groups_.try_emplace(id, members);
  check_internal(is_new || place->second == members,
                 "two groups got the same number: " + place->second + " and " + members);
}

}  // namespace trireme

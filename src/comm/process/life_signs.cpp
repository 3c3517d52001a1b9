#include "comm/process/life_signs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/seconds.h"

namespace trireme {
namespace {

constexpr double kExchangeSeconds = 0.25;
constexpr std::chrono::milliseconds kAskerPatience{700};  // of a thread that calls ask(): two exchanges
constexpr double kSecondsForFirstSign = 20;               // for a rank that may still be connecting to others
constexpr const char* kLeft = "left";
constexpr const char* kNotSaid = "-";

std::string key_of(int rank) { return fmt::format("trireme/life/{}", rank); }

/// Identifies this process, in the same form for all processes of the machine and PID namespace:
/// "7f0c..,pid:[4026531836],123".
std::string own_process() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  std::error_code error;
  const std::string space = std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
  return boot.empty() || space.empty() ? kNotSaid : fmt::format("{},{},{}", boot, space, ::getpid());
}

/// True if `process` is in this process's PID namespace on this machine and no longer exists.
bool has_ended(const std::string& process, const std::string& own) {
  const size_t place = own.rfind(',') + 1;
  if (place == 0 || process.compare(0, place, own, 0, place) != 0) return false;
  std::string stat;
  if (!std::getline(std::ifstream(fmt::format("/proc/{}/stat", process.substr(place))), stat)) return true;
  const size_t name_end = stat.rfind(')');  // a program's name may contain any character
  return name_end != stat.npos && stat.substr(name_end).starts_with(") Z");
}

std::string text_of(const LifeSigns::Sign& sign) {
  return fmt::format("{} {} {} {}", sign.beats, sign.progress, sign.process, sign.standing);
}

LifeSigns::Sign sign_from(const std::string& text) {
  LifeSigns::Sign sign;
  sign.left = text == kLeft;
  std::istringstream stream(text);
  stream >> sign.beats >> sign.progress >> sign.process;
  stream.get();
  std::getline(stream, sign.standing);
  return sign;
}

}  // namespace

LifeSigns::LifeSigns(const WorldOptions& options, bool keys_show_life, bool ends_are_seen,
                     std::shared_ptr<const FlightRecorder> recorder)
    : options_(options),
      watches_(keys_show_life),
      process_(ends_are_seen ? kNotSaid : own_process()),
      recorder_(std::move(recorder)),
      heard_(size_t(options.size)),
      ranks_(size_t(options.size)) {}

void LifeSigns::exchange(KeyStore& keys) {
  const double now = steady_seconds();
  if (!watches_ || say_goodbye(keys) || now - exchanged_ < kExchangeSeconds) return;
  exchanged_ = now;
  const RankRecord own = recorder_->read();
  ++beats_;
  const uint64_t progress = own.changes + (own.long_work.empty() ? 0 : beats_);
  keys.replace(key_of(options_.rank),
               text_of({.beats = beats_, .process = process_, .progress = progress, .standing = standing(own)}));
  std::set<int> wanted;
  {
    MutexLock lock(mutex_);
    wanted.swap(asked_);
  }
  for (int rank = 0; rank < options_.size; ++rank)
    if (is_watched(rank)) wanted.insert(rank);
  for (const int rank : wanted) {
    const std::optional<std::string> text = keys.look_up(key_of(rank));
    if (!text) continue;
    MutexLock lock(mutex_);
    heard_[size_t(rank)] = sign_from(*text);
  }
  {
    MutexLock lock(mutex_);
    answered_.merge(wanted);
  }
  heard_anew_.notify_all();
}

/// Returns whether this rank is leaving or has left.
bool LifeSigns::say_goodbye(KeyStore& keys) {
  {
    MutexLock lock(mutex_);
    if (!leaving_ || has_left_) return leaving_;
  }
  keys.replace(key_of(options_.rank), kLeft);
  {
    MutexLock lock(mutex_);
    has_left_ = true;
  }
  heard_anew_.notify_all();
  return true;
}

void LifeSigns::leave() {
  if (!watches_) return;
  MutexLock lock(mutex_);
  leaving_ = true;
  heard_anew_.wait_for(mutex_, kAskerPatience, [&]() TRIREME_REQUIRES(mutex_) { return has_left_; });
}

std::string LifeSigns::silence(uint64_t answers, const std::vector<bool>& gone) {
  if (!watches_) return "";
  for (int rank = 0; rank < options_.size; ++rank) {
    if (!is_watched(rank) || gone[size_t(rank)]) continue;
    const Sign sign = heard(rank);
    if (!sign.left && has_ended(sign.process, process_))
      return fmt::format("rank {}: rank {} is gone: its process has ended{}", options_.rank, rank, last_seen(rank));
  }
  const double now = steady_seconds();
  keys_.look(answers + 1, now);  // + 1 because the keys have answered at least once, at the rendezvous
  if (keys_.seconds() > kSilenceSeconds)
    return options_.store_is_kept || options_.rank == 0
               ? missed(fmt::format("the ranks' rendezvous at {}:{}", options_.address, options_.port), -1,
                        kSilenceSeconds)
               : missed("rank 0", 0, kSilenceSeconds);
  if (answers == answers_) return "";  // no new answer, so no rank's sign can be judged
  answers_ = answers;
  for (int rank = 0; rank < options_.size; ++rank) {
    if (!is_watched(rank) || gone[size_t(rank)]) continue;
    SilenceMeter& meter = ranks_[size_t(rank)];
    double limit = kSilenceSeconds;
    {
      MutexLock lock(mutex_);
      const Sign& sign = heard_[size_t(rank)];
      meter.look(sign.left ? 0 : sign.beats + 1, now);
      if (sign.beats == 0) limit = kSecondsForFirstSign;
    }
    if (meter.seconds() > limit) return missed(fmt::format("rank {}", rank), rank, limit);
  }
  return "";
}

/// `rank`: the rank whose last known position is added; -1: none.
std::string LifeSigns::missed(const std::string& name, int rank, double seconds) const {
  std::string text = fmt::format(
      "rank {}: {} has shown no sign of life for {} s: its process is frozen, or the network in between is cut",
      options_.rank, name, seconds);
  return text + last_seen(rank);
}

/// Describes where `rank` was last seen (nothing for -1) and where this rank is, to be appended to a message.
std::string LifeSigns::last_seen(int rank) const {
  const Sign sign = rank >= 0 ? heard(rank) : Sign{};
  return (sign.beats > 0 ? fmt::format("; its last sign of life was {}", where_of(sign.standing)) : "") +
         fmt::format("; this rank is {}", where_of(standing(recorder_->read())));
}

LifeSigns::Sign LifeSigns::heard(int rank) const {
  MutexLock lock(mutex_);
  return heard_[size_t(rank)];
}

LifeSigns::Sign LifeSigns::ask(int rank) {
  if (!watches_) return {};
  MutexLock lock(mutex_);
  answered_.erase(rank);
  asked_.insert(rank);
  heard_anew_.wait_for(mutex_, kAskerPatience, [&]() TRIREME_REQUIRES(mutex_) { return answered_.count(rank) > 0; });
  return heard_[size_t(rank)];
}

}  // namespace trireme

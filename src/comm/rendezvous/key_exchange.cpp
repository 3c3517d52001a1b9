#include "comm/rendezvous/key_exchange.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/seconds.h"
#include "comm/rendezvous/wire.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr int64_t kLargest = 1 << 20;  // bytes of a request or an answer: addresses and reasons
constexpr size_t kMostKeys = 1 << 20;
constexpr double kLook = 0.05;        // seconds between two checks of `stopping` or of the state
constexpr WireHeartbeat kNone{0, 0};  // no heartbeats: the ranks' signs of life detect a frozen rank 0

const std::string kYes = "1", kNo = "0";

// A message is a list of texts. Each is its length in four bytes, little-endian, and its bytes.
std::string pack(const std::vector<std::string>& texts) {
  std::string bytes;
  for (const std::string& text : texts) {
    for (int shift = 0; shift < 32; shift += 8) bytes += char((text.size() >> shift) & 0xff);
    bytes += text;
  }
  return bytes;
}

/// Returns nullopt if `bytes` is not such a message.
std::optional<std::vector<std::string>> unpack(std::string_view bytes) {
  std::vector<std::string> texts;
  while (!bytes.empty()) {
    if (bytes.size() < 4) return std::nullopt;
    size_t size = 0;
    for (int i = 3; i >= 0; --i) size = size << 8 | static_cast<unsigned char>(bytes[size_t(i)]);
    bytes.remove_prefix(4);
    if (size > bytes.size()) return std::nullopt;
    texts.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return texts;
}

std::string text_of(int64_t number) { return fmt::format("{}", number); }

std::optional<int64_t> parsed_number(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const long long number = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0' || errno != 0) return std::nullopt;
  return number;
}

}  // namespace

struct KeyServer::State {
  State(const std::string& listen, const CurveKeys& token_keys) : wire(listen, token_keys, kLargest, kNone) {}

  void serve() {
    while (!stopping)
      for (const ServerWire::Arrival& arrival : wire.receive(kLook)) {
        const auto request = arrival.too_large ? std::nullopt : unpack(arrival.bytes);
        const auto answer = request ? answer_to(*request) : std::nullopt;
        if (answer) wire.send(arrival.peer, pack(*answer));
        else wire.ignore(arrival.peer);
      }
  }

  /// Returns nullopt for an invalid request.
  std::optional<std::vector<std::string>> answer_to(const std::vector<std::string>& request) {
    using Texts = std::vector<std::string>;
    if (request.empty()) return std::nullopt;
    const std::string& what = request.front();
    const auto is = [&](const char* name, size_t texts) { return what == name && request.size() == texts + 1; };
    if (is("count", 0)) return Texts{text_of(int64_t(keys.size()))};
    if (what == "has")
      return Texts{
          std::all_of(request.begin() + 1, request.end(), [&](const std::string& key) { return keys.contains(key); })
              ? kYes
              : kNo};
    if (is("get", 1)) {
      const auto found = keys.find(request[1]);
      return found == keys.end() ? Texts{} : Texts{found->second};
    }
    if (is("remove", 1)) return Texts{keys.erase(request[1]) > 0 ? kYes : kNo};
    if (keys.size() >= kMostKeys) return std::nullopt;
    if (is("set", 2)) {
      keys[request[1]] = request[2];
      return Texts{kYes};
    }
    if (!is("add", 2)) return std::nullopt;
    std::string& value = keys[request[1]];
    const std::optional<int64_t> before = value.empty() ? 0 : parsed_number(value), by = parsed_number(request[2]);
    int64_t sum = 0;
    if (!before || !by || __builtin_add_overflow(*before, *by, &sum)) return std::nullopt;
    value = text_of(sum);
    return Texts{value};
  }

  ServerWire wire;  // used by the thread alone while it runs
  std::map<std::string, std::string> keys;
  std::atomic<bool> stopping{false};
  std::thread thread;
};

KeyServer::KeyServer(const std::string& listen, const CurveKeys& token_keys)
    : state_(std::make_unique<State>(listen, token_keys)) {
  state_->thread = std::thread([state = state_.get()] { state->serve(); });
}

KeyServer::~KeyServer() {
  state_->stopping = true;
  state_->thread.join();
}

const std::string& KeyServer::endpoint() const { return state_->wire.endpoint(); }

struct KeyClient::State {
  State(const std::string& at, const CurveKeys& token_keys, double seconds)
      : server(at), patience(seconds), own_key(token_keys.client_public), wire(at, token_keys, kLargest, kNone) {}

  [[noreturn]] void fail(const std::string& what, const std::string& next) const {
    fail_run({.where = server, .what = what, .why = "", .next = next});
  }

  const std::string server;
  const double patience;
  const std::string own_key;  // public key of the client; of a token, or of the empty token
  Mutex mutex;
  ClientWire wire TRIREME_GUARDED_BY(mutex);
  bool has_answered TRIREME_GUARDED_BY(mutex) = false;
};

KeyClient::KeyClient(const std::string& server, const CurveKeys& token_keys, double patience)
    : state_(std::make_unique<State>(server, token_keys, patience)) {}

KeyClient::~KeyClient() = default;

std::vector<std::string> KeyClient::ask(std::vector<std::string> request) {
  State& s = *state_;
  MutexLock lock(s.mutex);
  const double began = steady_seconds();
  bool has_reported = false;
  s.wire.send(pack(request));  // it is sent once there is a connection
  while (true) {
    for (const std::string& bytes : s.wire.receive(kLook)) {
      std::optional<std::vector<std::string>> answer = unpack(bytes);
      if (!answer) s.fail("rank 0 sent an invalid answer", "start all ranks with the same version");
      s.has_answered = true;
      return std::move(*answer);
    }
    switch (s.wire.state()) {
      case ClientWire::State::refused:
        s.fail(s.own_key == make_curve_keys("").client_public ? "rank 0 has a token, this rank has none"
                                                              : "rank 0 does not accept this rank's token",
               fmt::format("give all ranks the same {}", kTokenVariable));
      case ClientWire::State::lost: s.fail("the connection to rank 0 is gone", "look at the end of its output");
      case ClientWire::State::connecting:
      case ClientWire::State::connected: break;
    }
    const double waited = steady_seconds() - began;
    if (!has_reported && !s.has_answered &&
        waited > kReportsWaitAfter) {  // later failures are reported elsewhere, with what to do
      has_reported = true;
      spdlog::warn("{}: waiting for rank 0, which has not answered yet", s.server);
    }
    if (waited > s.patience)
      s.fail(fmt::format("rank 0 has not answered for {} s", s.patience),
             "check that it runs, and that it was given the same address");
  }
}

void KeyClient::set(const std::string& key, const std::string& value) { ask({"set", key, value}); }

std::optional<std::string> KeyClient::get(const std::string& key) {
  std::vector<std::string> answer = ask({"get", key});
  if (answer.empty()) return std::nullopt;
  return std::move(answer.front());
}

int64_t KeyClient::add(const std::string& key, int64_t by) {
  const std::vector<std::string> answer = ask({"add", key, text_of(by)});
  return answer.empty() ? 0 : parsed_number(answer.front()).value_or(0);
}

bool KeyClient::remove(const std::string& key) { return ask({"remove", key}) == std::vector{kYes}; }

bool KeyClient::has(const std::vector<std::string>& keys) {
  std::vector<std::string> request{"has"};
  request.insert(request.end(), keys.begin(), keys.end());
  return ask(std::move(request)) == std::vector{kYes};
}

int64_t KeyClient::count() {
  const std::vector<std::string> answer = ask({"count"});
  return answer.empty() ? 0 : parsed_number(answer.front()).value_or(0);
}

}  // namespace trireme

#include "cli/local_clients.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/seconds.h"
#include "base/text.h"
#include "cli/child.h"
#include "cli/options.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr double kSecondsForClients = 5;  // after the server has finished, before clients are interrupted
constexpr auto kPoll = std::chrono::milliseconds(20);

void wait_for_client(int number, const std::vector<std::string>& arguments, const std::atomic<bool>& ending) {
  try {
    const ChildEnd end = run_child(arguments, 0, ending, [](const nlohmann::json&) {});
    if (end.signal != 0) spdlog::warn("the process of client {} was ended by signal {}", number, end.signal);
    else if (end.exit_code != 0 && !interrupted_by_user())
      spdlog::warn("the process of client {} failed: {}", number, end.last_words);
  } catch (const std::exception& error) {
    spdlog::warn("client {} could not be started: {}", number, first_line(error));
  }
}

}  // namespace

void LocalClients::start(int clients, const std::vector<std::string>& arguments) {
  for (int number = 0; number < clients; ++number) {
    std::vector<std::string> words = arguments;
    words.insert(words.end(), {"--client", std::to_string(number)});
    ++running_;
    threads_.emplace_back([this, number, words = std::move(words)] {
      wait_for_client(number, words, ending_);
      --running_;
    });
  }
}

LocalClients::~LocalClients() {
  for (const double began = steady_seconds();
       running_ > 0 && steady_seconds() - began < kSecondsForClients && !interrupted_by_user();)
    std::this_thread::sleep_for(kPoll);
  ending_ = true;
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace trireme

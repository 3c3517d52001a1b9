// A backend: "folder". Processes of one machine communicate through files of a folder (FOLDER_BACKEND), which must be
// new for each run. It only shows how to write a Transport and is slow.
//
// A message is the file "FROM-TO-TAG-NUMBER". It is written under another name and then renamed, so that a reader never
// sees half of it; the receiver removes it. A key is the file "key-NAME".
#include <ATen/ATen.h>
#include <trireme/backend.h>
#include <trireme/error.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace {

using namespace trireme;
namespace fs = std::filesystem;

constexpr auto kPoll = std::chrono::milliseconds(1);

void write_whole(const fs::path& file, const char* bytes, size_t count) {
  static std::atomic<uint64_t> number = 0;
  const fs::path hidden = file.parent_path() / (".new-" + std::to_string(::getpid()) + "-" + std::to_string(++number));
  std::ofstream out(hidden, std::ios::binary);
  out.write(bytes, std::streamsize(count));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + hidden.string());
  fs::rename(hidden, file);
}

std::optional<std::string> read_whole(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

/// The file is already written when this object is made.
class Sent final : public Transfer {
 public:
  bool wait(std::chrono::milliseconds) override { return !cancelled_.exchange(false); }
  void cancel() override { cancelled_ = true; }

 private:
  std::atomic<bool> cancelled_ = false;
};

class Received final : public Transfer {
 public:
  Received(fs::path file, at::Tensor target) : file_(std::move(file)), target_(std::move(target)) {}

  bool wait(std::chrono::milliseconds limit) override {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (true) {
      if (cancelled_.exchange(false)) return false;
      if (fs::exists(file_)) break;
      if (std::chrono::steady_clock::now() > end) throw std::runtime_error(file_.string() + " does not come");
      std::this_thread::sleep_for(kPoll);
    }
    const std::optional<std::string> bytes = read_whole(file_);
    if (!bytes || bytes->size() > size_t(target_.nbytes())) throw std::runtime_error(file_.string() + " is damaged");
    std::copy(bytes->begin(), bytes->end(), static_cast<char*>(target_.data_ptr()));
    fs::remove(file_);
    return true;
  }
  void cancel() override { cancelled_ = true; }

 private:
  const fs::path file_;
  const at::Tensor target_;
  std::atomic<bool> cancelled_ = false;
};

class FolderTransport final : public Transport {
 public:
  FolderTransport(fs::path folder, int rank) : folder_(std::move(folder)), rank_(rank) {}

  std::unique_ptr<Transfer> send(const at::Tensor& contiguous, int to, int tag) override {
    write_whole(next_file(rank_, to, tag), static_cast<const char*>(contiguous.data_ptr()), contiguous.nbytes());
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Transfer> receive(const at::Tensor& contiguous, int from, int tag) override {
    return std::make_unique<Received>(next_file(from, rank_, tag), contiguous);
  }

 private:
  fs::path next_file(int from, int to, int tag) {
    const std::string pair = std::to_string(from) + "-" + std::to_string(to) + "-" + std::to_string(tag);
    const std::lock_guard lock(mutex_);
    return folder_ / (pair + "-" + std::to_string(numbers_[pair]++));
  }

  const fs::path folder_;
  const int rank_;
  std::mutex mutex_;
  std::map<std::string, int64_t> numbers_;  // number of messages by sender, receiver and tag
};

class FolderKeys final : public KeyStore {
 public:
  explicit FolderKeys(fs::path folder) : folder_(std::move(folder)) {}

  void publish(const std::string& key, const std::string& value) override {
    const fs::path written = folder_ / ("value-" + std::to_string(::getpid()) + "-" + std::to_string(++number_));
    write_whole(written, value.data(), value.size());
    std::error_code exists;  // if the key exists, its value stays: no hard link is made
    fs::create_hard_link(written, file_of(key), exists);
    fs::remove(written);
  }
  void replace(const std::string& key, const std::string& value) override {
    write_whole(file_of(key), value.data(), value.size());
  }
  std::optional<std::string> look_up(const std::string& key) override { return read_whole(file_of(key)); }

 private:
  fs::path file_of(const std::string& key) const {
    std::string name = "key-";
    for (const char c : key) {
      if (std::isalnum(static_cast<unsigned char>(c))) name += c;
      else name.append("_").append(std::to_string(int(c)));
    }
    return folder_ / name;
  }

  const fs::path folder_;
  std::atomic<uint64_t> number_ = 0;
};

std::unique_ptr<Communicator> join_folder(const JoinOptions& options) {
  const char* folder = std::getenv("FOLDER_BACKEND");
  if (folder == nullptr || !fs::is_directory(folder))
    fail_user({"--backend folder", folder == nullptr ? "FOLDER_BACKEND is not set" : folder,
               "the ranks need a folder that all of them see", "set FOLDER_BACKEND to an empty folder"});
  return communicator_over(options,
                           {.keys = std::make_shared<FolderKeys>(folder),
                            .transport = std::make_unique<FolderTransport>(folder, options.place.rank),
                            .keys_show_life = true,
                            .ends_are_seen = false},
                           "folder");
}

constexpr BackendKind kFolder = {
    .name = "folder",
    .help = " (files of the folder FOLDER_BACKEND)",
    .purpose = "processes, over files of a shared folder",
    .processes = true,
    .start = "trireme launch -n 4 train ...",
    .join = join_folder,
};

const bool kRegistered = register_backend(kFolder);

}  // namespace

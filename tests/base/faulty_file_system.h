// A file system that crashes, or is full, at a chosen operation. After a crash it leaves on the disk what a real crash
// may leave: bytes and names that were not synced are lost. The method is LevelDB's fault injection: files lie in a
// real folder, so tests read what is left in the usual way.
#pragma once

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "trireme/error.h"

namespace trireme::test_support {

class FaultyFileSystem final : public FileSystem {
 public:
  enum class Fault { crash, full_disk };
  /// What a crash loses. nothing: only the process died. bytes: unsynced bytes; bytes_to_zeros: they become zeros.
  /// names: unsynced names. bytes_and_names: both.
  enum class Loss { nothing, bytes, bytes_to_zeros, names, bytes_and_names };

  struct Crash : std::runtime_error {
    Crash() : std::runtime_error("the machine stopped") {}
  };

  /// `removed`: an empty folder on the same disk. Removed files are kept there, because a crash may bring them back.
  explicit FaultyFileSystem(std::filesystem::path removed) : removed_(std::move(removed)) {}

  /// Makes operation number `operation`, counted from 0, fail. After a crash all later operations fail too; a full disk
  /// still allows removals.
  void fail_at(int64_t operation, Fault fault) {
    fail_at_ = operation;
    fault_ = fault;
  }
  int64_t operations() const { return operations_; }

  /// Changes the files to what the crash leaves on the disk.
  void lose(Loss loss) {
    const bool names = loss == Loss::names || loss == Loss::bytes_and_names;
    if (loss != Loss::nothing && loss != Loss::names)
      for (const auto& [path, file] : files_) lose_bytes(path, *file, loss == Loss::bytes_to_zeros);
    while (names && !changes_.empty()) undo_last();
  }

  std::unique_ptr<WritableFile> create(const std::filesystem::path& file) override {
    begin(true);
    if (std::filesystem::exists(file)) throw std::runtime_error("exists: " + file.string());
    std::ofstream(file, std::ios::binary);
    changes_.push_back({Change::Kind::create, file, {}});
    files_[file] = std::make_shared<Bytes>();
    return std::make_unique<File>(*this, file, files_[file]);
  }
  void create_folder(const std::filesystem::path& folder) override {
    begin(true);
    if (std::filesystem::create_directory(folder)) changes_.push_back({Change::Kind::create, folder, {}});
  }
  void rename(const std::filesystem::path& from, const std::filesystem::path& to) override {
    begin(false);
    move(from, to);
    changes_.push_back({Change::Kind::rename, from, to});
  }
  void sync_folder(const std::filesystem::path& folder) override {
    begin(false);
    std::erase_if(changes_, [&](const Change& change) { return change.from.parent_path() == folder; });
  }
  void remove(const std::filesystem::path& path) override {
    begin(false);
    const std::filesystem::path kept = removed_ / std::to_string(operations_);
    move(path, kept);
    changes_.push_back({Change::Kind::remove, path, kept});
  }

 private:
  struct Bytes {
    uint64_t written = 0, synced = 0;
  };
  struct Change {
    enum class Kind { create, rename, remove };
    Kind kind;
    std::filesystem::path from, to;
  };

  class File final : public WritableFile {
   public:
    File(FaultyFileSystem& files, std::filesystem::path path, std::shared_ptr<Bytes> bytes)
        : files_(files), path_(std::move(path)), bytes_(std::move(bytes)) {}
    void append(std::string_view text) override {
      if (files_.fails_now()) put(text.substr(0, text.size() / 2));  // a part reaches the disk
      files_.begin(true);
      put(text);
    }
    void sync() override {
      files_.begin(true);
      bytes_->synced = bytes_->written;
    }

   private:
    void put(std::string_view text) {
      std::ofstream(path_, std::ios::binary | std::ios::app).write(text.data(), std::streamsize(text.size()));
      bytes_->written += text.size();
    }
    FaultyFileSystem& files_;
    const std::filesystem::path path_;
    const std::shared_ptr<Bytes> bytes_;
  };

  bool fails_now() const { return operations_ == fail_at_; }

  void begin(bool takes_space) {
    const int64_t operation = operations_++;
    if (operation < fail_at_ || fail_at_ < 0) return;
    if (fault_ == Fault::crash) throw Crash();
    if (takes_space) fail_run({"the disk", "cannot be written", "No space left on device", "free some space"});
  }

  /// Path of `path` after `from` was renamed to `to`.
  static std::filesystem::path moved(const std::filesystem::path& path, const std::filesystem::path& from,
                                     const std::filesystem::path& to) {
    const std::filesystem::path inside = path.lexically_relative(from);
    if (inside.empty() || *inside.begin() == "..") return path;
    return inside == "." ? to : to / inside;
  }

  /// Renames on the disk, and in the records of unsynced bytes and names.
  void move(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::filesystem::rename(from, to);
    std::map<std::filesystem::path, std::shared_ptr<Bytes>> files;
    for (const auto& [path, bytes] : files_) files[moved(path, from, to)] = bytes;
    files_ = std::move(files);
    for (Change& change : changes_) {
      change.from = moved(change.from, from, to);
      if (!change.to.empty()) change.to = moved(change.to, from, to);
    }
  }

  static void lose_bytes(const std::filesystem::path& path, const Bytes& bytes, bool zeros) {
    if (bytes.synced == bytes.written) return;
    std::filesystem::resize_file(path, bytes.synced);
    if (zeros) std::filesystem::resize_file(path, bytes.written);
  }

  void undo_last() {
    const Change change = changes_.back();
    changes_.pop_back();
    if (change.kind == Change::Kind::create) std::filesystem::remove_all(change.from);
    else move(change.to, change.from);
  }

  const std::filesystem::path removed_;
  int64_t operations_ = 0, fail_at_ = -1;
  Fault fault_ = Fault::crash;
  std::map<std::filesystem::path, std::shared_ptr<Bytes>> files_;  // created files by their present path
  std::vector<Change> changes_;                                    // in order: changes of names that are not synced yet
};

}  // namespace trireme::test_support

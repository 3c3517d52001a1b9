#include <dlfcn.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "base/json_file.h"
#include "data/bytes.h"
#include "data/sentencepiece/module.h"
#include "data/text/tokenizer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

constexpr const char* kModuleName = "libtrireme_sentencepiece.so";
constexpr int kFormat = 2;           // version of the key of a cached model: raise it when training changes
constexpr size_t kKeyBytes = 16;     // bytes of the SHA-256 that are used
constexpr size_t kUsualLine = 4192;  // bytes: by default the library leaves longer sentences out, without an error

/// Returns the path of the module: beside the program, in its folder of libraries, beside the library that this code is
/// part of or in the folder trireme there; else in the build folder.
std::filesystem::path module_file() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<std::filesystem::path> folders{program, program.parent_path() / TRIREME_MODULE_FOLDER};
  Dl_info image;
  if (::dladdr(reinterpret_cast<const void*>(&module_file), &image) != 0 && image.dli_fname != nullptr) {
    const auto library = std::filesystem::absolute(image.dli_fname, ignored).parent_path();
    folders.insert(folders.end(), {library, library / "trireme"});
  }
  for (const auto& folder : folders)
    if (std::filesystem::exists(folder / kModuleName, ignored)) return folder / kModuleName;
  return TRIREME_SENTENCEPIECE_MODULE;
}

const PieceModule& module() {
  static const PieceModule* const loaded = [] {
    const std::filesystem::path file = module_file();
    // RTLD_DEEPBIND: the module's symbols come from the libraries that it names itself before all others
    void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    void* const entry = handle ? ::dlsym(handle, kPieceModuleEntry) : nullptr;
    if (entry == nullptr)
      fail_run({.where = file.string(),
                .what = "cannot be loaded",
                .why = ::dlerror(),
                .next = fmt::format("install libsentencepiece0 and keep {} beside the program", kModuleName)});
    return reinterpret_cast<PieceModuleEntry>(entry)();
  }();
  return *loaded;
}

/// Maps the special pieces to Trireme's ids, and the others to the ids after them.
class PieceTokenizer final : public Tokenizer {
 public:
  /// `where` names the model in messages.
  PieceTokenizer(std::unique_ptr<PieceModel> model, const std::string& where) : model_(std::move(model)) {
    const PieceModel& m = *model_;
    if (m.unknown() < 0)
      fail_user({.where = where,
                 .what = "a model without <unk>",
                 .why = "unknown text needs a token",
                 .next = "train it with one"});
    theirs_ = {m.padding(), m.unknown(), m.begin(), m.end()};
    ours_.assign(static_cast<size_t>(m.size()), -1);
    for (size_t i = 0; i < theirs_.size(); ++i)
      if (theirs_[i] >= 0) ours_[static_cast<size_t>(theirs_[i])] = static_cast<int32_t>(i);
    for (int id = 0; id < m.size(); ++id) {
      if (ours_[static_cast<size_t>(id)] >= 0) continue;
      ours_[static_cast<size_t>(id)] = static_cast<int32_t>(theirs_.size());
      theirs_.push_back(id);
    }
  }

  int64_t size() const override { return static_cast<int64_t>(theirs_.size()); }

  std::vector<int32_t> encode(std::string_view sentence) const override {
    std::vector<int> ids = model_->encode(sentence);
    for (int& id : ids) id = ours_[static_cast<size_t>(id)];
    return ids;
  }

 private:
  std::string join(const std::vector<int32_t>& ids) const override {
    std::vector<int> pieces;
    for (const int32_t id : ids) pieces.push_back(theirs_[static_cast<size_t>(id)]);
    return model_->decode(pieces);
  }

  std::unique_ptr<PieceModel> model_;
  std::vector<int> theirs_;    // by Trireme's id; -1 if the model has no such special piece
  std::vector<int32_t> ours_;  // by the model's id
};

std::unique_ptr<Tokenizer> make_tokenizer(std::string_view bytes, const std::string& where, const std::string& next) {
  std::string error;
  std::unique_ptr<PieceModel> model = module().load(bytes, error);
  if (!model) fail_user({.where = where, .what = "not a SentencePiece model", .why = error, .next = next});
  return std::make_unique<PieceTokenizer>(std::move(model), where);
}

std::unique_ptr<Tokenizer> load(const std::filesystem::path& file, const std::string& next) {
  const std::vector<uint8_t> bytes = read_file(file, next);
  return make_tokenizer({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, file.string(), next);
}

/// Returns hex digits that differ if the sentences or the options differ.
std::string key_of(const std::vector<std::string>& sentences, const PieceOptions& options) {
  std::string text = fmt::format("{} {} {} {}\n", kFormat, options.size, options.kind, options.lower);
  for (const std::string& sentence : sentences) text.append(sentence).push_back('\n');
  unsigned char digest[EVP_MAX_MD_SIZE];
  check_internal(EVP_Digest(text.data(), text.size(), digest, nullptr, EVP_sha256(), nullptr) == 1,
                 "OpenSSL offers SHA-256");
  std::string hex;
  for (size_t i = 0; i < kKeyBytes; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

/// Returns the whole number after the words in a message of the library.
std::optional<int64_t> number_after(std::string_view message, std::string_view words) {
  const size_t place = message.find(words);
  if (place == message.npos) return std::nullopt;
  message.remove_prefix(place + words.size());
  int64_t number = 0;
  if (std::from_chars(message.data(), message.data() + message.size(), number).ec != std::errc()) return std::nullopt;
  return number;
}

/// `problem` is the library's own message: "Internal: file(line) [condition] words".
[[noreturn]] void fail_training(const PieceOptions& options, std::string problem) {
  const auto most = number_after(problem, "set it to a value <= ");
  const auto least = number_after(problem, fmt::format("required_chars. {} vs ", options.size));
  Diagnosis diagnosis;
  diagnosis.where = "data.vocabulary";
  diagnosis.what = fmt::format("{} SentencePiece pieces ({})", options.size, options.kind);
  if (most) {
    diagnosis.why = fmt::format("the training sentences allow at most {}", *most);
    diagnosis.next = fmt::format("set data.vocabulary = {} or less, or use more sentences", *most);
  } else if (least) {
    diagnosis.why = fmt::format("the training sentences' characters and the special pieces are {}", *least);
    diagnosis.next = fmt::format("set data.vocabulary = {} or more", *least);
  } else {
    if (const size_t words = problem.rfind("] "); words != problem.npos && words + 2 < problem.size())
      problem.erase(0, words + 2);
    diagnosis.why = std::move(problem);
    diagnosis.next = "choose another size, or another tokenizer";
  }
  fail_user(std::move(diagnosis));
}

}  // namespace

bool sentencepiece_available() { return true; }

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path& file) {
  return load(file, "name a .model file as spm_train writes it");
}

std::unique_ptr<Tokenizer> train_sentencepiece(const std::vector<std::string>& sentences, const PieceOptions& options,
                                               const std::filesystem::path& cache) {
  check_room_for_text(options.size);
  const std::filesystem::path file =
      cache / fmt::format("{}-{}-{}.model", options.kind, options.size, key_of(sentences, options));
  std::error_code error;
  const std::string advice = "delete it; it is then trained again";
  if (std::filesystem::exists(file, error)) return load(file, advice);
  size_t longest = kUsualLine;
  for (const std::string& sentence : sentences) longest = std::max(longest, sentence.size());
  std::string problem;
  // several threads add in a varying order, and the model would depend on it
  const std::string model = module().train(sentences,
                                           {{"vocab_size", std::to_string(options.size)},
                                            {"model_type", options.kind},
                                            {"pad_id", std::to_string(kPadding)},
                                            {"unk_id", std::to_string(kUnknownToken)},
                                            {"bos_id", std::to_string(kBeginToken)},
                                            {"eos_id", std::to_string(kEndToken)},
                                            {"normalization_rule_name", options.lower ? "nmt_nfkc_cf" : "nmt_nfkc"},
                                            {"character_coverage", "1"},  // alphabets: all characters
                                            {"max_sentence_length", std::to_string(longest)},
                                            {"num_threads", "1"},
                                            {"minloglevel", "2"}},  // errors only
                                           problem);
  if (model.empty()) fail_training(options, std::move(problem));
  std::filesystem::create_directories(cache, error);
  if (error)
    fail_run({.where = cache.string(),
              .what = "cannot be created",
              .why = error.message(),
              .next = "set TRIREME_CACHE to another folder"});
  write_file_atomically(file, model);
  return make_tokenizer(model, file.string(), advice);
}

}  // namespace trireme

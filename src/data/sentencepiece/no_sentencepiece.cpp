// Replaces sentencepiece.cpp if the library is missing or cannot be loaded as required (sanitizers).
#include "data/text/tokenizer.h"
#include "trireme/error.h"

namespace trireme {
namespace {

[[noreturn]] void fail_missing() {
  fail_run({.where = "data.tokenizer",
            .what = "this build of trireme has no SentencePiece",
            .why = "libsentencepiece was not found when it was configured, or it was built with sanitizers",
            .next = "install libsentencepiece-dev and build again, or choose another tokenizer"});
}

}  // namespace

bool sentencepiece_available() { return false; }

std::unique_ptr<Tokenizer> load_sentencepiece(const std::filesystem::path&) { fail_missing(); }

std::unique_ptr<Tokenizer> train_sentencepiece(const std::vector<std::string>&, const PieceOptions&,
                                               const std::filesystem::path&) {
  fail_missing();
}

}  // namespace trireme

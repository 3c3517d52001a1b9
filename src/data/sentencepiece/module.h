// Interface to the SentencePiece library, which is used through a separate shared library (module). The program itself
// must not be linked with it: Debian's libsentencepiece.so exports the symbols of the Protocol Buffers with which it
// was built, and these would replace those that libtorch and the TensorBoard writer use (or the reverse). The module is
// opened so that each library uses its own symbols. Source: T. Kudo, J. Richardson, "SentencePiece", EMNLP 2018.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme {

/// A model, with the library's own ids. Immutable; thread-safe.
class PieceModel {
 public:
  virtual ~PieceModel() = default;
  virtual int size() const = 0;
  /// The ids of the special pieces; -1 if the model has none.
  virtual int padding() const = 0;
  virtual int unknown() const = 0;
  virtual int begin() const = 0;
  virtual int end() const = 0;
  virtual std::vector<int> encode(std::string_view sentence) const = 0;
  virtual std::string decode(const std::vector<int>& ids) const = 0;
};

class PieceModule {
 public:
  virtual ~PieceModule() = default;
  /// Returns the bytes of a model that is trained on the sentences. Options as in spm_train. Empty on failure; `error`
  /// says why.
  virtual std::string train(const std::vector<std::string>& sentences,
                            const std::unordered_map<std::string, std::string>& options, std::string& error) const = 0;
  /// Returns null on failure; `error` says why.
  virtual std::unique_ptr<PieceModel> load(std::string_view bytes, std::string& error) const = 0;
};

/// The module's only symbol: a function of this type and name. The module stays loaded as long as the process lives.
using PieceModuleEntry = const PieceModule* (*)();
inline constexpr const char* kPieceModuleEntry = "trireme_sentencepiece_module";

}  // namespace trireme

// What a shared library of its own does with the SentencePiece library, which the program itself must not be linked
// with: Debian's libsentencepiece.so exports the symbols of the Protocol Buffers that it was built with, and those
// would take the place of the others that libtorch and the TensorBoard writer use (or the other way round). The module
// is opened so that each finds its own. Source: T. Kudo, J. Richardson, "SentencePiece", EMNLP 2018.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trireme {

/// A model as the library numbers its pieces. Immutable; safe from many threads.
class PieceModel {
 public:
  virtual ~PieceModel() = default;
  virtual int size() const = 0;
  /// Its ids of the special pieces; -1 where it has none.
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
  /// The bytes of a model of the sentences. Options as spm_train takes them. Empty on failure, with `error` saying why.
  virtual std::string train(const std::vector<std::string>& sentences,
                            const std::unordered_map<std::string, std::string>& options, std::string& error) const = 0;
  /// Null on failure, with `error` saying why.
  virtual std::unique_ptr<PieceModel> load(std::string_view bytes, std::string& error) const = 0;
};

/// The module's one symbol: a function of this type and name. The module lives as long as the process.
using PieceModuleEntry = const PieceModule* (*)();
inline constexpr const char* kPieceModuleEntry = "trireme_sentencepiece_module";

}  // namespace trireme

#include "data/sentencepiece/module.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace trireme {
namespace {

class Sentences final : public sentencepiece::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& all) : at_(all.begin()), end_(all.end()) {}
  bool done() const override { return at_ == end_; }
  void Next() override { ++at_; }
  const std::string& value() const override { return *at_; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  std::vector<std::string>::const_iterator at_, end_;
};

class Model final : public PieceModel {
 public:
  int size() const override { return processor_.GetPieceSize(); }
  int padding() const override { return processor_.pad_id(); }
  int unknown() const override { return processor_.unk_id(); }
  int begin() const override { return processor_.bos_id(); }
  int end() const override { return processor_.eos_id(); }
  std::vector<int> encode(std::string_view sentence) const override {
    std::vector<int> ids;
    processor_.Encode({sentence.data(), sentence.size()}, &ids).IgnoreError();  // fails only if no model was loaded
    return ids;
  }
  std::string decode(const std::vector<int>& ids) const override {
    std::string sentence;
    processor_.Decode(ids, &sentence).IgnoreError();
    return sentence;
  }

  sentencepiece::SentencePieceProcessor processor_;
};

class Module final : public PieceModule {
 public:
  std::string train(const std::vector<std::string>& sentences,
                    const std::unordered_map<std::string, std::string>& options, std::string& error) const override {
    Sentences iterator(sentences);
    std::string model;
    const auto status = sentencepiece::SentencePieceTrainer::Train(options, &iterator, &model);
    if (status.ok()) return model;
    error = status.ToString();
    return "";
  }

  std::unique_ptr<PieceModel> load(std::string_view bytes, std::string& error) const override {
    auto model = std::make_unique<Model>();
    const auto status = model->processor_.LoadFromSerializedProto({bytes.data(), bytes.size()});
    if (status.ok()) return model;
    error = status.ToString();
    return nullptr;
  }
};

}  // namespace
}  // namespace trireme

extern "C" __attribute__((visibility("default"))) const trireme::PieceModule* trireme_sentencepiece_module() {
  static const trireme::Module module;
  return &module;
}

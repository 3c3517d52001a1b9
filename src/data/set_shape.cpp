#include "data/set_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "data/source_words.h"
#include "trireme/error.h"

namespace trireme {
namespace {

/// Marks sets that have no samples.
struct WithoutSamples {};

template <class Base>
class ShapeOf : public Base, public WithoutSamples {
 public:
  ShapeOf(SetShape shape, int64_t size) : shape_(std::move(shape)), size_(size) {}

  int64_t size() const final { return size_; }
  Shape sample_shape() const final { return shape_.sample; }
  Shape target_shape() const final { return shape_.target; }
  LearningTask task() const final { return *shape_.task; }
  int64_t classes() const final { return shape_.classes; }
  int64_t vocabulary() const final { return shape_.vocabulary; }
  bool is_stream() const final { return shape_.is_stream; }
  bool decodes() const final { return shape_.decodes; }

 protected:
  static Samples no_samples() {
    check_internal(false, "samples are requested only of data that are here");
    return {};
  }
  const SetShape& shape() const { return shape_; }

 private:
  SetShape shape_;
  int64_t size_;
};

class PlainShape final : public ShapeOf<Dataset> {
 public:
  using ShapeOf::ShapeOf;
  Samples get(std::span<const int64_t>, const Draw&) const override { return no_samples(); }
};

class PaddedShape final : public ShapeOf<PaddedSet> {
 public:
  using ShapeOf::ShapeOf;
  PartLengths parts(int64_t) const override { return shape().padded; }
  PartLengths padded_parts() const override { return shape().padded; }
  Samples get_padded(std::span<const int64_t>, const PartLengths&) const override { return no_samples(); }
};

std::shared_ptr<const Dataset> set_of(const SetShape& shape, int64_t size) {
  if (shape.padded.positions() > 0) return std::make_shared<PaddedShape>(shape, size);
  return std::make_shared<PlainShape>(shape, size);
}

/// Sets what a sample of this shape implies.
void take_sample(SetShape& shape, const Shape& sample) {
  shape.sample = sample;
  if (shape.padded.positions() > 0) {
    const bool pair = shape.task == LearningTask::translation;
    shape.padded =
        pair ? PartLengths{sample.front() / 2, sample.front() - sample.front() / 2} : PartLengths{sample.front(), 0};
    if (pair) shape.target = {shape.padded.second};
  } else if (shape.task == LearningTask::segmentation) {
    shape.target = {sample.begin() + 1, sample.end()};
  } else if (shape.task == LearningTask::language) {
    shape.target = sample;
  }
}

[[noreturn]] void fail_stated(const char* key, const std::string& stated, const std::string& source,
                              const std::string& found) {
  fail_user({.where = fmt::format("data.shape.{}", key),
             .what = stated,
             .why = fmt::format("{} has {}", source, found),
             .next = "correct it, or leave it out: it is read from the data, which are on this machine"});
}

}  // namespace

std::vector<std::string> complete(SetShape& shape, const StatedShape& stated) {
  if (!stated.sample.empty()) take_sample(shape, stated.sample);
  for (const auto& [number, to] : {std::pair{stated.classes, &SetShape::classes},
                                   {stated.vocabulary, &SetShape::vocabulary},
                                   {stated.train, &SetShape::train}})
    if (number > 0) shape.*to = number;
  const bool predicts_tokens = shape.task == LearningTask::language || shape.task == LearningTask::translation;
  if (predicts_tokens && stated.classes == 0) shape.classes = shape.vocabulary;
  if (shape.task == LearningTask::regression) {
    shape.classes = std::max<int64_t>(shape.classes, 1);
    shape.target = {shape.classes};
  }
  std::vector<std::string> missing;
  if (shape.sample.empty()) missing.emplace_back("sample");
  if (shape.tokens && shape.vocabulary == 0) missing.emplace_back("vocabulary");
  if (shape.classes == 0 && !predicts_tokens) missing.emplace_back("classes");
  if (shape.train == 0) missing.emplace_back("train");
  return missing;
}

std::string in_words(const SetShape& shape) {
  std::string text = fmt::format("{} training samples of {}", with_commas(shape.train), to_string(shape.sample));
  if (shape.vocabulary > 0) text += fmt::format(", {} different tokens", with_commas(shape.vocabulary));
  if (shape.task == LearningTask::regression) return text + ", " + count_of(shape.classes, "value") + " to predict";
  if (shape.classes == shape.vocabulary) return text;
  return text + fmt::format(", {} classes", with_commas(shape.classes));
}

TaskData without_samples(const SetShape& shape, std::string source) {
  TaskData data;
  data.train = set_of(shape, shape.train);
  data.test = set_of(shape, shape.test);
  data.source = std::move(source);
  return data;
}

bool has_samples(const Dataset& set) { return dynamic_cast<const WithoutSamples*>(&set) == nullptr; }

void check_as_stated(const StatedShape& stated, const Dataset& train, int64_t limit, const std::string& source) {
  if (!stated.sample.empty() && stated.sample != train.sample_shape())
    fail_stated("sample", to_string(stated.sample), source, to_string(train.sample_shape()));
  const auto check = [&](const char* key, int64_t number, int64_t found) {
    if (number > 0 && number != found) fail_stated(key, std::to_string(number), source, std::to_string(found));
  };
  check("classes", stated.classes, train.classes());
  check("vocabulary", stated.vocabulary, train.vocabulary());
  if (limit == 0) check("train", stated.train, train.size());
}

}  // namespace trireme

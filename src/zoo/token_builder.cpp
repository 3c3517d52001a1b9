#include "zoo/token_builder.h"

#include <fmt/format.h>

#include "trireme/error.h"
#include "trireme/layers/dropout.h"

namespace trireme {

void require_tokens(const ModelSpec& spec) {
  if (spec.sample_shape.size() == 1 && vocabulary_of(spec) > 0) return;
  fail_user({.where = fmt::format("model \"{}\"", spec.name),
             .what = fmt::format("samples of shape {}", to_string(spec.sample_shape)),
             .why = "it reads token ids [positions]",
             .next = "use it with a text"});
}

int64_t vocabulary_of(const ModelSpec& spec) { return spec.vocabulary > 0 ? spec.vocabulary : spec.classes; }

NodeId dropout_after(ModelBuilder& b, NodeId x, const std::string& name, double probability) {
  return probability > 0 ? b.layer<Dropout>({x}, name, probability) : x;
}

}  // namespace trireme

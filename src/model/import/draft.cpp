#include "model/import/draft.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme::torchscript {

Draft::Draft(const ScriptFile& file, Graph whole) : file(file), graph(std::move(whole)) {
  const std::vector<bool> images = find_images(graph);
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const Value& value = graph.values[v];
    const bool travels =
        value.from_data && value.batch_dim >= 0 && (value.is_floating() || value.kind == Value::Kind::input);
    forms_.push_back(travels ? std::optional(form_of(value, images[v])) : std::nullopt);
    aliases_.push_back(ValueId(v));
  }
  readers_.resize(graph.values.size());
  covered_.resize(graph.operators.size(), false);
  for (int i = 0; i < int(graph.operators.size()); ++i)
    for (const Argument& argument : graph.operators[size_t(i)].arguments)
      for_each_value(argument, [&](ValueId id) {
        std::vector<int>& known = readers_[size_t(id)];
        if (known.empty() || known.back() != i) known.push_back(i);
      });
}

const Form* Draft::form(const Argument* argument) const {
  if (argument == nullptr || !argument->is_value() || !form(argument->value)) return nullptr;
  return &*form(argument->value);
}

std::optional<int> Draft::only_reader(ValueId id) const {
  if (id == graph.output || readers(id).size() != 1) return std::nullopt;
  return readers(id).front();
}

void Draft::add(Item item) {
  for (int index : item.operators) cover(index);
  items.push_back(std::move(item));
}

ValueId Draft::new_value() {
  aliases_.push_back(ValueId(aliases_.size()));
  return aliases_.back();
}

ValueId Draft::resolve(ValueId id) const {
  while (aliases_[size_t(id)] != id) id = aliases_[size_t(id)];
  return id;
}

const Value* Draft::parameter(const Argument* argument) const {
  if (argument == nullptr || !argument->is_value()) return nullptr;
  const Value& found = value(argument->value);
  return found.kind == Value::Kind::parameter ? &found : nullptr;
}

std::string Draft::module_of(const Argument* weight, const Argument* bias) const {
  constexpr std::string_view kWeight = ".weight";
  const Value *w = parameter(weight), *b = parameter(bias);
  if (w == nullptr || !w->name.ends_with(kWeight)) return "";
  const std::string module = w->name.substr(0, w->name.size() - kWeight.size());
  if (bias != nullptr && (b == nullptr || b->name != module + ".bias")) return "";
  return is_taken(module) ? "" : module;
}

std::string Draft::new_name(const std::string& wanted) {
  std::string name = wanted;
  for (int number = 2; !names_.insert(name).second; ++number) name = fmt::format("{}_{}", wanted, number);
  return name;
}

std::string Draft::new_name(const Operator& op, const std::string& what) {
  if (op.module.empty()) return new_name(what);
  const bool is_leaf = !file.inner_modules.contains(op.module);
  if (is_leaf && names_.insert(op.module).second) return op.module;
  return new_name(op.module + "." + what);
}

std::optional<int64_t> int_argument(const Operator& op, std::string_view name) {
  const Argument* argument = op.find(name);
  if (argument == nullptr || !argument->constant.isInt() || argument->kind != Argument::Kind::constant)
    return std::nullopt;
  return argument->constant.toInt();
}

std::optional<double> number_argument(const Operator& op, std::string_view name) {
  const Argument* argument = op.find(name);
  if (argument == nullptr || argument->kind != Argument::Kind::constant) return std::nullopt;
  if (argument->constant.isInt()) return double(argument->constant.toInt());
  if (argument->constant.isDouble()) return argument->constant.toDouble();
  return std::nullopt;
}

bool flag_argument(const Operator& op, std::string_view name) {
  const Argument* argument = op.find(name);
  return argument != nullptr && argument->constant.isBool() && argument->constant.toBool();
}

std::optional<Size2d> size_argument(const Operator& op, std::string_view name) {
  const Argument* argument = op.find(name);
  if (argument == nullptr || argument->kind != Argument::Kind::constant) return std::nullopt;
  if (argument->constant.isInt()) return Size2d(argument->constant.toInt());
  if (!argument->constant.isIntList()) return std::nullopt;
  const auto sizes = argument->constant.toIntVector();
  if (sizes.size() == 1) return Size2d(sizes[0]);
  return sizes.size() == 2 ? std::optional(Size2d(sizes[0], sizes[1])) : std::nullopt;
}

std::string short_name(const Operator& op) {
  const size_t colons = op.name.rfind("::");
  return colons == std::string::npos ? op.name : op.name.substr(colons + 2);
}

}  // namespace trireme::torchscript

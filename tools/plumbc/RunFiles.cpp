//===- RunFiles.cpp - The files that a program reads --------------------------===//

#include "RunFiles.h"
#include "plumb/Dialect/Plumb/Plumb.h"
#include "plumb/Runtime/Failure.h"
#include "plumb/Runtime/Safetensors.h"
#include "plumb/Support/Glob.h"
#include "plumb/Transforms/Utils.h"
#include <bit>
#include <cstring>
#include <map>
#include <random>
#include <set>

using namespace mlir;
using namespace plumb;

/// Fills memory with what `draw` answers, one after the other.
template <typename Draw>
static void fill(std::span<std::byte> data, Draw draw) {
  using T = decltype(draw());
  for (size_t offset = 0; offset + sizeof(T) <= data.size(); offset += sizeof(T)) {
    T value = draw();
    std::memcpy(data.data() + offset, &value, sizeof(T));
  }
}

/// Whether `write` succeeded; what it throws is reported at the file.
template <typename Write>
static bool reportingFailures(const std::string &path, Diagnostics &diagnostics, Write write) {
  try {
    return write();
  } catch (const Failure &failure) {
    diagnostics.error(Place{path}, failure.sentence());
    return false;
  }
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// The upper half of a float, rounded to the nearest, ties to even.
static uint16_t toBFloat16(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Initial values of a weight; false if its type has none of the kind.
static bool initialize(std::span<std::byte> data, pt2::DType type, const std::string &name,
                       const spec::Initial &initial) {
  // FNV-1a: the same values wherever the program is made.
  uint64_t seed = 0xcbf29ce484222325;
  for (char c : name)
    seed = (seed ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, initial.deviation > 0 ? initial.deviation : 1);
  bool isNormal = initial.kind == "normal";
  auto draw = [&]() -> double {
    return isNormal ? (initial.deviation > 0 ? normal(random) : 0) : initial.kind == "ones";
  };
  switch (type) {
  case pt2::DType::F32:
    fill(data, [&] { return static_cast<float>(draw()); });
    return true;
  case pt2::DType::F64:
    fill(data, [&] { return draw(); });
    return true;
  case pt2::DType::BF16:
    fill(data, [&] { return toBFloat16(static_cast<float>(draw())); });
    return true;
  case pt2::DType::F16:
    fill(data, [&] { return static_cast<_Float16>(draw()); });
    return true;
  case pt2::DType::I64:
    fill(data, [&] { return static_cast<int64_t>(draw()); });
    return !isNormal;
  case pt2::DType::I32:
    fill(data, [&] { return static_cast<int32_t>(draw()); });
    return !isNormal;
  default:
    fill(data, [&] { return static_cast<uint8_t>(draw()); });
    return !isNormal;
  }
}

namespace {

class WeightWriter {
public:
  WeightWriter(const pt2::Pt2Archive &archive, const std::vector<spec::Initial> &init,
               Diagnostics &diagnostics)
      : archive(archive), init(init), diagnostics(diagnostics) {}

  bool writeAll(const std::string &path) {
    if (!collectAll())
      return false;
    return write(path);
  }
  bool writeNonPersistent(const std::string &path) {
    for (const pt2::Weight &weight : archive.weights())
      if (archive.nonPersistent().contains(weight.fqn) && (weight.hasBytes() || findInitial(weight.fqn)) &&
          !collect(weight))
        return false;
    return !weights.empty() && write(path);
  }

private:
  bool write(const std::string &path) {
    SafetensorsWriter writer(path, entries);
    for (size_t index = 0; index < weights.size(); ++index)
      if (!writeOne(*weights[index], writer.data(index)))
        return false;
    writer.commit();
    return true;
  }

  bool collectAll() {
    std::set<std::string> aliases;
    for (const std::vector<std::string> &group : archive.aliases())
      aliases.insert(group.begin() + 1, group.end());
    std::vector<std::string> missing;
    for (const pt2::Weight &weight : archive.weights()) {
      if (aliases.contains(weight.fqn))
        continue;
      if (!collect(weight))
        return false;
      if (!weight.hasBytes() && !findInitial(weight.fqn))
        missing.push_back(weight.fqn);
    }
    return missing.empty() || error(describeMissing(missing));
  }

  bool collect(const pt2::Weight &weight) {
    const char *type = nameOfScalarType(static_cast<int64_t>(weight.meta.dtype));
    if (!type)
      return error("weight " + weight.fqn + " has the type " + pt2::name(weight.meta.dtype) +
                   ", which is not supported");
    std::vector<int64_t> shape;
    for (const pt2::Dimension &size : weight.meta.sizes)
      shape.push_back(size.value);
    entries.push_back({weight.fqn, type, shape});
    weights.push_back(&weight);
    return true;
  }

  std::string describeMissing(const std::vector<std::string> &missing) const {
    constexpr size_t shown = 8;
    std::string text = std::to_string(missing.size()) + " of " + std::to_string(weights.size()) +
                       " weights have no values: the model was exported with fake or meta weights (";
    for (size_t index = 0; index < std::min(shown, missing.size()); ++index)
      text += (index ? ", " : "") + missing[index];
    if (missing.size() > shown)
      text += " and " + std::to_string(missing.size() - shown) + " more";
    return text +
           "); give them with --weights, or say in the plan how they begin: \"init\": {\"*\": \"normal\"}";
  }

  const spec::Initial *findInitial(const std::string &name) const {
    const spec::Initial *found = nullptr;
    for (const spec::Initial &initial : init)
      if (Glob(initial.match.value).matches(name))
        found = &initial;
    return found;
  }

  bool writeOne(const pt2::Weight &weight, std::span<std::byte> data) {
    if (!weight.hasBytes()) {
      const spec::Initial &initial = *findInitial(weight.fqn);
      return initialize(data, weight.meta.dtype, weight.fqn, initial) ||
             error("weight " + weight.fqn + " of the type " + pt2::name(weight.meta.dtype) +
                   " cannot begin as \"" + initial.kind + "\"");
    }
    auto bytes = archive.bytes(weight.fqn, diagnostics);
    if (bytes)
      std::memcpy(data.data(), bytes->data(), bytes->size());
    return bytes.has_value();
  }

  bool error(std::string message) {
    diagnostics.error(Place{archive.name()}, std::move(message));
    return false;
  }

  const pt2::Pt2Archive &archive;
  const std::vector<spec::Initial> &init;
  Diagnostics &diagnostics;
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<const pt2::Weight *> weights;
};

} // namespace

bool plumb::hasAllValues(const pt2::Pt2Archive &archive) {
  return llvm::all_of(archive.weights(), [](const pt2::Weight &weight) { return weight.hasBytes(); });
}

bool plumb::writeWeights(const pt2::Pt2Archive &archive, const std::vector<spec::Initial> &init,
                         const std::string &path, Diagnostics &diagnostics) {
  return reportingFailures(path, diagnostics,
                           [&] { return WeightWriter(archive, init, diagnostics).writeAll(path); });
}

bool plumb::writeNonPersistent(const pt2::Pt2Archive &archive, const std::vector<spec::Initial> &init,
                               const std::string &path, Diagnostics &diagnostics) {
  return reportingFailures(path, diagnostics,
                           [&] { return WeightWriter(archive, init, diagnostics).writeNonPersistent(path); });
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

bool plumb::writeInputs(mlir::ModuleOp module, const std::string &path, Diagnostics &diagnostics) {
  std::map<int64_t, InputOp> inputs;
  for (InputOp input : findOp<ProgramOp>(module).getBody().getOps<InputOp>())
    if (!input.getCounts())
      inputs[static_cast<int64_t>(input.getIndex())] = input;
  std::vector<SafetensorsWriter::Entry> entries;
  std::vector<Type> types;
  for (auto &[index, input] : inputs) {
    auto type = cast<RankedTensorType>(input.getResult().getType());
    Type element = type.getElementType();
    const char *name = element.isF32()         ? "F32"
                       : element.isInteger(64) ? "I64"
                       : element.isInteger(32) ? "I32"
                       : element.isInteger(1)  ? "BOOL"
                                               : nullptr;
    if (!name) {
      std::string text;
      llvm::raw_string_ostream(text) << element;
      diagnostics.error(Place{}, "input " + input.getName().str() + " has the element type " + text +
                                     "; give its values with --inputs");
      return false;
    }
    entries.push_back({"input." + std::to_string(index), name, type.getShape().vec()});
    types.push_back(element);
  }
  return reportingFailures(path, diagnostics, [&] {
    SafetensorsWriter writer(path, entries);
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal;
    for (size_t index = 0; index < entries.size(); ++index) {
      std::span<std::byte> data = writer.data(index);
      if (types[index].isF32())
        fill(data, [&] { return normal(random); });
      else if (types[index].isInteger(64))
        fill(data, [&] { return static_cast<int64_t>(random() & 1); });
      else if (types[index].isInteger(32))
        fill(data, [&] { return static_cast<int32_t>(random() & 1); });
      else
        fill(data, [&] { return static_cast<uint8_t>(random() & 1); });
    }
    writer.commit();
    return true;
  });
}

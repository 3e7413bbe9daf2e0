#include "ArgumentReader.h"

#include <algorithm>
#include <limits>

namespace plumb::pt2 {

using json::Cursor;

//===--------------------------------------------------------------------===//
// Enumerations
//===--------------------------------------------------------------------===//

namespace {

struct TypeInfo {
  DType type;
  const char *name;
  unsigned bytes;
};

constexpr TypeInfo kTypes[] = {
    {DType::Unknown, "unknown", 0},
    {DType::U8, "uint8", 1},
    {DType::I8, "int8", 1},
    {DType::I16, "int16", 2},
    {DType::I32, "int32", 4},
    {DType::I64, "int64", 8},
    {DType::F16, "float16", 2},
    {DType::F32, "float32", 4},
    {DType::F64, "float64", 8},
    {DType::ComplexF16, "complex32", 4},
    {DType::ComplexF32, "complex64", 8},
    {DType::ComplexF64, "complex128", 16},
    {DType::Bool, "bool", 1},
    {DType::BF16, "bfloat16", 2},
    {DType::U16, "uint16", 2},
    {DType::F8E4M3FN, "float8_e4m3fn", 1},
    {DType::F8E5M2, "float8_e5m2", 1},
    {DType::F8E4M3FNUZ, "float8_e4m3fnuz", 1},
    {DType::F8E5M2FNUZ, "float8_e5m2fnuz", 1},
    {DType::F8E8M0FNU, "float8_e8m0fnu", 1},
    {DType::U32, "uint32", 4},
    {DType::U64, "uint64", 8},
};

const TypeInfo &info(DType type) {
  for (const TypeInfo &entry : kTypes)
    if (entry.type == type)
      return entry;
  return kTypes[0];
}

DType readDType(const Cursor &cursor) {
  int64_t number = cursor.integer();
  for (const TypeInfo &entry : kTypes)
    if (static_cast<int64_t>(entry.type) == number)
      return entry.type;
  cursor.fail("unknown element type " + std::to_string(number));
}

template <typename Enum>
Enum readEnum(const Cursor &cursor, Enum last) {
  int64_t number = cursor.integer();
  if (number < 0 || number > static_cast<int64_t>(last))
    cursor.fail("expected a number from 0 to " + std::to_string(static_cast<int64_t>(last)) + ", found " +
                std::to_string(number));
  return static_cast<Enum>(number);
}

//===--------------------------------------------------------------------===//
// Parts
//===--------------------------------------------------------------------===//

template <typename Read>
auto readList(const Cursor &cursor, Read read) {
  std::vector<decltype(read(cursor))> result;
  for (const Cursor &element : cursor.elements())
    result.push_back(read(element));
  return result;
}

TensorRef readTensor(const Cursor &cursor) { return {cursor["name"].string()}; }

std::optional<TensorRef> readOptionalTensor(const Cursor &cursor) {
  auto [tag, value] = cursor.tagged();
  if (*tag == "as_none")
    return std::nullopt;
  if (*tag == "as_tensor")
    return readTensor(value);
  cursor.fail("expected as_tensor or as_none, found \"" + *tag + "\"");
}

/// JSON has no infinities; the file spells them as strings.
double readFloat(const Cursor &cursor) {
  const std::string *text = cursor.value().asString();
  if (!text)
    return cursor.number();
  if (*text == "NaN")
    return std::numeric_limits<double>::quiet_NaN();
  if (*text == "Infinity")
    return std::numeric_limits<double>::infinity();
  if (*text == "-Infinity")
    return -std::numeric_limits<double>::infinity();
  cursor.fail("expected a number, found the string \"" + *text + "\"");
}

SymInt readSymInt(const Cursor &cursor) {
  auto [tag, value] = cursor.tagged();
  if (*tag == "as_name")
    return {value.string(), 0};
  if (*tag == "as_int")
    return {"", value.integer()};
  cursor.fail("expected as_name or as_int, found \"" + *tag + "\"");
}

Argument::Data plainOrSymbolic(SymInt value) {
  if (value.name.empty())
    return value.value;
  return value;
}

Argument::Data plainOrSymbolic(std::vector<SymInt> values) {
  std::vector<int64_t> numbers;
  for (const SymInt &value : values) {
    if (!value.name.empty())
      return values;
    numbers.push_back(value.value);
  }
  return numbers;
}

/// A symbolic bool or float: `{as_name}`, or a constant under `constantTag`.
template <typename Symbol, typename ReadConstant>
Argument::Data readSymbol(const Cursor &cursor, std::string_view constantTag, ReadConstant readConstant) {
  auto [tag, value] = cursor.tagged();
  if (*tag == "as_name")
    return Symbol{value.string()};
  if (*tag == constantTag)
    return readConstant(value);
  cursor.fail("expected as_name or " + std::string(constantTag) + ", found \"" + *tag + "\"");
}

/// A list of them is plain if all are; a mixed one keeps only names, since no operator takes such a list.
template <typename Symbol, typename Constant, typename ReadConstant>
Argument::Data readSymbols(const Cursor &cursor, std::string_view constantTag, ReadConstant readConstant) {
  std::vector<Symbol> symbols;
  std::vector<Constant> constants;
  for (const Cursor &element : cursor.elements()) {
    Argument::Data data = readSymbol<Symbol>(element, constantTag, readConstant);
    if (const Symbol *symbol = std::get_if<Symbol>(&data))
      symbols.push_back(*symbol);
    else
      constants.push_back(std::get<Constant>(data));
  }
  if (symbols.empty())
    return constants;
  if (!constants.empty())
    cursor.fail("a list of both symbolic and constant numbers is not supported");
  return symbols;
}

Device readDevice(const Cursor &cursor) {
  std::optional<Cursor> index = cursor.find("index");
  return {cursor["type"].string(), index ? std::optional(index->integer()) : std::nullopt};
}

std::complex<double> readComplex(const Cursor &cursor) {
  return {readFloat(cursor["real"]), readFloat(cursor["imag"])};
}

Subgraph readSubgraph(const Cursor &cursor) {
  return {cursor["name"].string(), std::make_shared<const Graph>(readGraph(cursor["graph"]))};
}

NamedArguments readNamedArguments(const Cursor &cursor) {
  NamedArguments result;
  for (const auto &[key, value] : cursor.members())
    result.entries.emplace_back(*key, readArgument(value));
  return result;
}

Dimension readDimension(const Cursor &cursor) {
  if (const int64_t *plain = cursor.value().asInteger()) // The older spelling of a storage offset.
    return {*plain};
  auto [tag, value] = cursor.tagged();
  if (*tag == "as_int")
    return {value.integer()};
  if (*tag != "as_expr")
    cursor.fail("expected as_int or as_expr, found \"" + *tag + "\"");
  Dimension dimension{-1, value["expr_str"].string()};
  if (dimension.expression.empty())
    value.fail("the expression is empty");
  if (std::optional<Cursor> hint = value.find("hint"))
    if (auto [kind, number] = hint->tagged(); *kind == "as_int")
      dimension.value = number.integer();
  return dimension;
}

//===--------------------------------------------------------------------===//
// Arguments
//===--------------------------------------------------------------------===//

using Reader = Argument::Data (*)(const Cursor &);

constexpr std::pair<std::string_view, Reader> kReaders[] = {
    {"as_none", [](const Cursor &) -> Argument::Data { return None{}; }},
    {"as_tensor", [](const Cursor &c) -> Argument::Data { return readTensor(c); }},
    {"as_tensors", [](const Cursor &c) -> Argument::Data { return readList(c, readTensor); }},
    {"as_optional_tensors",
     [](const Cursor &c) -> Argument::Data { return readList(c, readOptionalTensor); }},
    {"as_optional_tensor",
     [](const Cursor &c) -> Argument::Data {
       std::optional<TensorRef> tensor = readOptionalTensor(c);
       return tensor ? Argument::Data(*tensor) : Argument::Data(None{});
     }},
    {"as_nested_tensors",
     [](const Cursor &c) -> Argument::Data {
       return readList(c, [](const Cursor &inner) { return readList(inner, readTensor); });
     }},
    {"as_int", [](const Cursor &c) -> Argument::Data { return c.integer(); }},
    {"as_ints",
     [](const Cursor &c) -> Argument::Data {
       return readList(c, [](const Cursor &e) { return e.integer(); });
     }},
    {"as_int_lists",
     [](const Cursor &c) -> Argument::Data {
       return readList(c, [](const Cursor &inner) {
         return readList(inner, [](const Cursor &e) { return e.integer(); });
       });
     }},
    {"as_float", [](const Cursor &c) -> Argument::Data { return readFloat(c); }},
    {"as_floats", [](const Cursor &c) -> Argument::Data { return readList(c, readFloat); }},
    {"as_bool", [](const Cursor &c) -> Argument::Data { return c.boolean(); }},
    {"as_bools",
     [](const Cursor &c) -> Argument::Data {
       return readList(c, [](const Cursor &e) { return e.boolean(); });
     }},
    {"as_string", [](const Cursor &c) -> Argument::Data { return c.string(); }},
    {"as_strings",
     [](const Cursor &c) -> Argument::Data {
       return readList(c, [](const Cursor &e) { return e.string(); });
     }},
    {"as_complex", [](const Cursor &c) -> Argument::Data { return readComplex(c); }},
    {"as_sym_int", [](const Cursor &c) { return plainOrSymbolic(readSymInt(c)); }},
    {"as_sym_ints", [](const Cursor &c) { return plainOrSymbolic(readList(c, readSymInt)); }},
    {"as_sym_bool",
     [](const Cursor &c) {
       return readSymbol<SymBool>(c, "as_bool",
                                  [](const Cursor &b) -> Argument::Data { return b.boolean(); });
     }},
    {"as_sym_bools",
     [](const Cursor &c) {
       return readSymbols<SymBool, bool>(c, "as_bool",
                                         [](const Cursor &b) -> Argument::Data { return b.boolean(); });
     }},
    {"as_sym_float",
     [](const Cursor &c) {
       return readSymbol<SymFloat>(c, "as_float",
                                   [](const Cursor &f) -> Argument::Data { return readFloat(f); });
     }},
    {"as_sym_floats",
     [](const Cursor &c) {
       return readSymbols<SymFloat, double>(c, "as_float",
                                            [](const Cursor &f) -> Argument::Data { return readFloat(f); });
     }},
    {"as_scalar_type", [](const Cursor &c) -> Argument::Data { return readDType(c); }},
    {"as_memory_format",
     [](const Cursor &c) -> Argument::Data { return readEnum(c, MemoryFormat::Preserve); }},
    {"as_layout", [](const Cursor &c) -> Argument::Data { return readEnum(c, MemoryLayout::Strided); }},
    {"as_device", [](const Cursor &c) -> Argument::Data { return readDevice(c); }},
    {"as_custom_obj",
     [](const Cursor &c) -> Argument::Data {
       return CustomObject{c["name"].string(), c["class_fqn"].string()};
     }},
    {"as_operator", [](const Cursor &c) -> Argument::Data { return Operator{c.string()}; }},
    {"as_graph", [](const Cursor &c) -> Argument::Data { return readSubgraph(c); }},
    {"as_string_to_argument", [](const Cursor &c) -> Argument::Data { return readNamedArguments(c); }},
};

struct KindName {
  const char *operator()(const None &) const { return "None"; }
  const char *operator()(const TensorRef &) const { return "a tensor"; }
  const char *operator()(const Tensors &) const { return "a list of tensors"; }
  const char *operator()(const std::vector<std::optional<TensorRef>> &) const {
    return "a list of optional tensors";
  }
  const char *operator()(const std::vector<Tensors> &) const { return "a list of lists of tensors"; }
  const char *operator()(int64_t) const { return "an integer"; }
  const char *operator()(const std::vector<int64_t> &) const { return "a list of integers"; }
  const char *operator()(const std::vector<std::vector<int64_t>> &) const {
    return "a list of lists of integers";
  }
  const char *operator()(double) const { return "a float"; }
  const char *operator()(const std::vector<double> &) const { return "a list of floats"; }
  const char *operator()(bool) const { return "a bool"; }
  const char *operator()(const std::vector<bool> &) const { return "a list of bools"; }
  const char *operator()(const std::string &) const { return "a string"; }
  const char *operator()(const std::vector<std::string> &) const { return "a list of strings"; }
  const char *operator()(const std::complex<double> &) const { return "a complex number"; }
  const char *operator()(const SymInt &) const { return "a symbolic integer"; }
  const char *operator()(const std::vector<SymInt> &) const { return "a list of symbolic integers"; }
  const char *operator()(const SymBool &) const { return "a symbolic bool"; }
  const char *operator()(const std::vector<SymBool> &) const { return "a list of symbolic bools"; }
  const char *operator()(const SymFloat &) const { return "a symbolic float"; }
  const char *operator()(const std::vector<SymFloat> &) const { return "a list of symbolic floats"; }
  const char *operator()(DType) const { return "an element type"; }
  const char *operator()(MemoryFormat) const { return "a memory format"; }
  const char *operator()(MemoryLayout) const { return "a memory layout"; }
  const char *operator()(const Device &) const { return "a device"; }
  const char *operator()(const CustomObject &) const { return "a custom object"; }
  const char *operator()(const Operator &) const { return "an operator"; }
  const char *operator()(const Subgraph &) const { return "a subgraph"; }
  const char *operator()(const NamedArguments &) const { return "a dictionary"; }
};

} // namespace

unsigned itemSize(DType type) { return info(type).bytes; }

const char *name(DType type) { return info(type).name; }

const char *Argument::kind() const { return std::visit(KindName(), data); }

Argument readArgument(const Cursor &cursor) {
  auto [tag, value] = cursor.tagged();
  for (const auto &[known, read] : kReaders)
    if (*tag == known)
      return {read(value)};
  cursor.fail("unknown kind of argument \"" + *tag + "\"");
}

void forEachTensor(const Argument &argument, const std::function<void(const TensorRef &)> &visit) {
  if (const auto *tensor = argument.as<TensorRef>()) {
    visit(*tensor);
  } else if (const auto *tensors = argument.as<Tensors>()) {
    for (const TensorRef &element : *tensors)
      visit(element);
  } else if (const auto *optionals = argument.as<std::vector<std::optional<TensorRef>>>()) {
    for (const std::optional<TensorRef> &element : *optionals)
      if (element)
        visit(*element);
  } else if (const auto *lists = argument.as<std::vector<Tensors>>()) {
    for (const Tensors &list : *lists)
      for (const TensorRef &element : list)
        visit(element);
  } else if (const auto *named = argument.as<NamedArguments>()) {
    for (const auto &[key, value] : named->entries)
      forEachTensor(value, visit);
  }
}

//===--------------------------------------------------------------------===//
// Tensors
//===--------------------------------------------------------------------===//

bool TensorMeta::isStatic() const {
  auto allStatic = [](const std::vector<Dimension> &dimensions) {
    for (const Dimension &dimension : dimensions)
      if (!dimension.isStatic())
        return false;
    return true;
  };
  return allStatic(sizes) && allStatic(strides) && storageOffset.isStatic();
}

int64_t TensorMeta::elements() const {
  int64_t count = 1;
  for (const Dimension &size : sizes)
    count *= size.value;
  return count;
}

std::string TensorMeta::str() const {
  std::string result = std::string(name(dtype)) + "[";
  for (size_t i = 0; i < sizes.size(); ++i)
    result += (i ? ", " : "") + (sizes[i].isStatic() ? std::to_string(sizes[i].value) : sizes[i].expression);
  return result + "]";
}

/// Refuses what would make arithmetic on a tensor's sizes overflow or go negative.
static void checkExtent(const TensorMeta &meta, const Cursor &cursor) {
  for (const std::vector<Dimension> *list : {&meta.sizes, &meta.strides})
    for (const Dimension &dimension : *list)
      if (dimension.isStatic() && dimension.value < 0)
        cursor.fail("the tensor has a negative size or stride, " + std::to_string(dimension.value));
  if (meta.storageOffset.isStatic() && meta.storageOffset.value < 0)
    cursor.fail("the tensor has a negative storage offset, " + std::to_string(meta.storageOffset.value));

  int64_t bytes = std::max(1u, itemSize(meta.dtype));
  for (const Dimension &size : meta.sizes)
    if (size.isStatic() && __builtin_mul_overflow(bytes, size.value, &bytes))
      cursor.fail("the tensor " + meta.str() + " has more than 2^63 bytes");
}

TensorMeta readTensorMeta(const Cursor &cursor) {
  if (std::optional<Cursor> wrapped = cursor.find("meta")) // The older spelling.
    return readTensorMeta(*wrapped);
  TensorMeta meta;
  meta.dtype = readDType(cursor["dtype"]);
  meta.sizes = readList(cursor["sizes"], readDimension);
  meta.strides = readList(cursor["strides"], readDimension);
  if (std::optional<Cursor> offset = cursor.find("storage_offset"))
    meta.storageOffset = readDimension(*offset);
  if (std::optional<Cursor> requiresGrad = cursor.find("requires_grad"))
    meta.requiresGrad = requiresGrad->boolean();
  if (std::optional<Cursor> layout = cursor.find("layout"))
    meta.layout = readEnum(*layout, MemoryLayout::Strided);
  if (meta.sizes.size() != meta.strides.size())
    cursor.fail("the tensor has " + std::to_string(meta.sizes.size()) + " sizes but " +
                std::to_string(meta.strides.size()) + " strides");
  checkExtent(meta, cursor);
  return meta;
}

} // namespace plumb::pt2

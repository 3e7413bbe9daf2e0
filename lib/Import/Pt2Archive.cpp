#include "plumb/Import/Pt2Archive.h"

#include "ZipFile.h"

#include "plumb/Import/Functionalize.h"
#include "plumb/Import/InlineRegions.h"
#include "plumb/Support/Suggest.h"

#include <algorithm>
#include <map>

namespace plumb::pt2 {

static constexpr const char *kExportAgain =
    "; export the model again with torch.export.save of PyTorch 2.9 or newer";

Pt2Archive::Pt2Archive(std::string name, std::unique_ptr<ZipFile> zip)
    : name_(std::move(name)), zip_(std::move(zip)) {}

Pt2Archive::~Pt2Archive() = default;

bool Pt2Archive::looksLikeArchive(std::string_view head) { return head.substr(0, 2) == "PK"; }

std::unique_ptr<Pt2Archive> Pt2Archive::open(const std::string &path, Diagnostics &diagnostics) {
  return load(path, ZipFile::open(path, diagnostics), diagnostics);
}

std::unique_ptr<Pt2Archive> Pt2Archive::read(const std::string &name, std::string bytes,
                                             Diagnostics &diagnostics) {
  return load(name, ZipFile::read(name, std::move(bytes), diagnostics), diagnostics);
}

std::unique_ptr<Pt2Archive> Pt2Archive::load(std::string name, std::unique_ptr<ZipFile> zip,
                                             Diagnostics &diagnostics) {
  if (!zip)
    return nullptr;
  std::unique_ptr<Pt2Archive> archive(new Pt2Archive(std::move(name), std::move(zip)));
  if (!archive->checkFormat(diagnostics) || !archive->loadProgram(diagnostics) ||
      !archive->loadWeights(diagnostics))
    return nullptr;
  return archive;
}

//===--------------------------------------------------------------------===//
// Format
//===--------------------------------------------------------------------===//

/// What a ZIP file that PyTorch wrote is when it is no `.pt2` of the present generation; empty if nothing
/// known.
static std::string otherFormat(const ZipFile &zip, const std::string &root) {
  if (zip.find("serialized_exported_program.json") || zip.find(root + "serialized_exported_program.json"))
    return std::string("this archive was written by PyTorch 2.7 or older, which kept weights as pickles") +
           kExportAgain;
  if (zip.find(root + "constants.pkl") || zip.find(root + "code/"))
    return std::string("this is a TorchScript archive, not an exported program") + kExportAgain;
  if (zip.find(root + "data.pkl"))
    return "this is a checkpoint of torch.save, which has weights but no graph; export the model with "
           "torch.export.save and pass this file's weights as safetensors";
  return "";
}

/// The content of a one-line entry without blanks around it, or nothing if the entry is absent or unreadable.
static std::optional<std::string> shortEntry(const ZipFile &zip, const std::string &name,
                                             Diagnostics &diagnostics) {
  const ZipFile::Entry *entry = zip.find(name);
  std::optional<std::string> content = entry ? zip.content(*entry, diagnostics) : std::nullopt;
  if (content)
    content->erase(content->find_last_not_of(" \r\n\t") + 1);
  return content;
}

bool Pt2Archive::checkFormat(Diagnostics &diagnostics) {
  size_t errorsBefore = diagnostics.errorCount();
  auto fail = [&](std::string message) {
    if (diagnostics.errorCount() == errorsBefore)
      diagnostics.error({name_}, std::move(message));
    return false;
  };
  if (zip_->entries().empty())
    return fail("this archive is empty");
  // All entries lie under one folder, named after the file as it was called when it was saved.
  if (!zip_->find("archive_format")) {
    const std::string &first = zip_->entries().front().name;
    root_ = first.substr(0, first.find('/') == std::string::npos ? 0 : first.find('/') + 1);
  }
  std::string other = otherFormat(*zip_, root_);
  std::optional<std::string> format = shortEntry(*zip_, root_ + "archive_format", diagnostics);
  if (!format)
    return fail(other.empty()
                    ? "this ZIP archive is not a .pt2: it has no entry \"" + root_ + "archive_format\""
                    : other);
  if (*format != "pt2")
    return fail("the format of this archive is \"" + *format + "\", not \"pt2\"");
  std::optional<std::string> version = shortEntry(*zip_, root_ + "archive_version", diagnostics);
  if (version.value_or("0") != "0")
    return fail("the version of this archive is \"" + *version + "\", but Plumb reads version 0");
  std::optional<std::string> order = shortEntry(*zip_, root_ + "byteorder", diagnostics);
  if (order.value_or("little") != "little")
    return fail("the weights of this archive are \"" + *order +
                "\"-endian; only little-endian ones can be read");
  return diagnostics.errorCount() == errorsBefore;
}

//===--------------------------------------------------------------------===//
// Program
//===--------------------------------------------------------------------===//

std::optional<json::Document> Pt2Archive::document(const std::string &entryName,
                                                   Diagnostics &diagnostics) const {
  const ZipFile::Entry *entry = zip_->find(entryName);
  std::optional<std::string> text = entry ? zip_->content(*entry, diagnostics) : std::nullopt;
  if (!text)
    return std::nullopt;
  return json::parse(std::make_shared<Source>(name_ + "(" + entryName + ")", std::move(*text)), diagnostics);
}

bool Pt2Archive::loadProgram(Diagnostics &diagnostics) {
  const std::string folder = root_ + "models/", extension = ".json";
  std::vector<std::string> names;
  for (const ZipFile::Entry &entry : zip_->entries()) {
    bool isModel = entry.name.size() > folder.size() + extension.size() &&
                   entry.name.substr(0, folder.size()) == folder &&
                   entry.name.substr(entry.name.size() - extension.size()) == extension;
    if (isModel)
      names.push_back(entry.name.substr(folder.size(), entry.name.size() - folder.size() - extension.size()));
  }
  if (names.empty()) {
    diagnostics.error({name_}, "this archive has no program: there is no entry \"" + folder + "model.json\"" +
                                   " (a package of compiled code has none)" + kExportAgain);
    return false;
  }
  auto preferred = std::find(names.begin(), names.end(), "model");
  if (preferred == names.end() && names.size() > 1) {
    std::string list;
    for (const std::string &name : names)
      list += (list.empty() ? "\"" : ", \"") + name + "\"";
    diagnostics.error({name_}, "this archive has several programs, none of them called \"model\": " + list +
                                   "; save the one to compile into a file of its own");
    return false;
  }
  model_ = preferred == names.end() ? names.front() : *preferred;
  std::optional<json::Document> json = document(folder + model_ + extension, diagnostics);
  std::optional<ExportedProgram> program = json ? parseExportedProgram(*json, diagnostics) : std::nullopt;
  // Functions of values, in one block: regions first, then what they write in place.
  if (!program || !inlineRegions(*program, diagnostics) || !functionalize(*program, diagnostics))
    return false;
  program_ = std::move(*program);
  return true;
}

//===--------------------------------------------------------------------===//
// Weights
//===--------------------------------------------------------------------===//

/// Reads the first config of `names` that is there. The published description of the format and its writer
/// disagree on the name.
bool Pt2Archive::loadConfig(const std::string &folder, const std::vector<std::string> &names,
                            Diagnostics &diagnostics) {
  auto present = std::find_if(names.begin(), names.end(),
                              [&](const std::string &name) { return zip_->find(folder + model_ + name); });
  if (present == names.end()) {
    if (zip_->find(folder + model_ + ".pt"))
      diagnostics.error({name_},
                        "this archive was written by PyTorch 2.8, which kept weights as a pickle (\"" +
                            folder + model_ + ".pt\")" + kExportAgain);
    else
      diagnostics.error({name_}, "the entry \"" + folder + model_ + names.front() +
                                     "\" is missing, which says where the weights are" + kExportAgain);
    return false;
  }
  std::optional<json::Document> config = document(folder + model_ + *present, diagnostics);
  if (!config)
    return false;
  auto findRecord = [&](const std::string &file, Weight &weight) {
    const ZipFile::Entry *entry = zip_->find(folder + file);
    if (!entry)
      return false;
    weight.record = entry->name;
    weight.recordSize = entry->size;
    return true;
  };
  std::optional<std::vector<Weight>> weights = parsePayloadConfig(*config, findRecord, diagnostics);
  if (!weights)
    return false;
  std::move(weights->begin(), weights->end(), std::back_inserter(weights_));
  return true;
}

/// Puts the weights into the order of the program's inputs, which decides the canonical name of tied ones,
/// and indexes them.
void Pt2Archive::orderWeights() {
  std::unordered_map<std::string_view, size_t> position;
  for (size_t i = 0; i < program_.inputs.size(); ++i)
    position.emplace(program_.inputs[i].name, i);
  std::multimap<size_t, Weight> ordered; // Equal keys keep the order of insertion.
  for (Weight &weight : weights_) {
    auto found = position.find(weight.fqn);
    ordered.emplace(found == position.end() ? position.size() : found->second, std::move(weight));
  }
  weights_.clear();
  for (auto &[rank, weight] : ordered) {
    weightIndex_.emplace(weight.fqn, weights_.size());
    weights_.push_back(std::move(weight));
  }
}

bool Pt2Archive::checkAgainstProgram(Diagnostics &diagnostics) const {
  for (const InputSpec &spec : program_.inputs) {
    if (spec.kind != InputKind::Parameter && spec.kind != InputKind::Buffer &&
        spec.kind != InputKind::TensorConstant)
      continue;
    const Weight *stored = weight(spec.name);
    if (!stored) {
      diagnostics.error({name_}, "the program uses \"" + spec.name +
                                     "\", but no weights config of the archive names it");
      return false;
    }
    const TensorMeta &used = program_.graph.tensors.at(spec.value.as<TensorRef>()->name);
    if (used.dtype != stored->meta.dtype || used.sizes != stored->meta.sizes) {
      diagnostics.error({name_}, "\"" + spec.name + "\" is " + used.str() +
                                     " in the program, but stored as " + stored->meta.str());
      return false;
    }
  }
  return true;
}

bool Pt2Archive::loadWeights(Diagnostics &diagnostics) {
  if (!loadConfig(root_ + "data/weights/", {"_weights_config.json", "_model_param_config.json"},
                  diagnostics) ||
      !loadConfig(root_ + "data/constants/", {"_constants_config.json", "_model_constants_config.json"},
                  diagnostics))
    return false;
  orderWeights();
  aliases_ = aliasGroups(weights_);
  findNonPersistent();
  for (const auto &[first, second] : partialOverlaps(weights_))
    diagnostics.warning({name_},
                        "\"" + first + "\" and \"" + second +
                            "\" share a part of their storage; they are treated as separate tensors");
  return checkAgainstProgram(diagnostics);
}

void Pt2Archive::findNonPersistent() {
  std::set<std::string> saved;
  for (const InputSpec &spec : program_.inputs)
    (spec.isSaved() ? saved : nonPersistent_).insert(spec.name);
  auto isSaved = [&](const std::string &name) { return saved.contains(name); };
  for (const std::vector<std::string> &group : aliases_)
    if (std::ranges::any_of(group, isSaved))
      nonPersistent_.erase(group.front());
}

const Weight *Pt2Archive::weight(const std::string &fqn) const {
  auto found = weightIndex_.find(fqn);
  return found == weightIndex_.end() ? nullptr : &weights_[found->second];
}

std::optional<std::vector<std::byte>> Pt2Archive::bytes(const std::string &fqn,
                                                        Diagnostics &diagnostics) const {
  auto fail = [&](std::string message) {
    diagnostics.error({name_}, std::move(message));
    return std::nullopt;
  };
  const Weight *found = weight(fqn);
  if (!found) {
    std::vector<std::string> names;
    for (const Weight &weight : weights_)
      names.push_back(weight.fqn);
    return fail("the archive has no weight \"" + fqn + "\"" + didYouMean(fqn, names));
  }
  if (found->isPickled)
    return fail("\"" + fqn + "\" is stored as a Python pickle, which cannot be read" + kExportAgain);
  if (!found->hasBytes())
    return fail("\"" + fqn +
                "\" has a shape but no values: the model was exported with fake or meta weights");
  std::optional<std::string> record = zip_->content(*zip_->find(found->record), diagnostics);
  if (!record)
    return std::nullopt;
  std::optional<std::vector<std::byte>> values = contiguous(found->meta, *record);
  return values ? values
                : fail("\"" + fqn + "\" has the type " + pt2::name(found->meta.dtype) +
                       ", which is not supported");
}

} // namespace plumb::pt2

//===- Completion.cpp - completion: words for the shell ------------------------===//
//
// Made from the command line itself, so that it cannot lag behind.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ExitCode.h"
#include <iostream>
#include <sstream>

using namespace plumb;

static std::vector<std::string> optionsOf(const CLI::App *app) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app->get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  return names;
}

static std::string join(const std::vector<std::string> &words) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : " ") + word;
  return text;
}

static std::string nameAll(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    names.push_back(sub->get_name());
  return join(names);
}

static void printBash(const CLI::App &app, std::ostream &os) {
  os << "_plumbc() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} words\n"
        "  if ((COMP_CWORD == 1)); then\n"
        "    words=\""
     << nameAll(app)
     << "\"\n"
        "  else\n"
        "    case ${COMP_WORDS[1]} in\n";
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    os << "    " << sub->get_name() << ") words=\"" << join(optionsOf(sub)) << "\" ;;\n";
  os << "    esac\n"
        "  fi\n"
        "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
        "  [[ $word == -* ]] || ((COMP_CWORD == 1)) || COMPREPLY+=($(compgen -f -- \"$word\"))\n"
        "}\n"
        "complete -o filenames -F _plumbc plumbc\n";
}

/// A description without what ends a quoted word.
static std::string quoted(std::string text) {
  std::erase_if(text, [](char c) { return c == '\'' || c == '[' || c == ']' || c == ':'; });
  return "'" + text + "'";
}

static void printFish(const CLI::App &app, std::ostream &os) {
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; })) {
    os << "complete -c plumbc -n __fish_use_subcommand -a " << sub->get_name() << " -d "
       << quoted(sub->get_description()) << "\n";
    for (const CLI::Option *option : sub->get_options())
      for (const std::string &name : option->get_lnames())
        os << "complete -c plumbc -n '__fish_seen_subcommand_from " << sub->get_name() << "' -l " << name
           << " -d " << quoted(option->get_description()) << "\n";
  }
}

static void printZsh(const CLI::App &app, std::ostream &os) {
  os << "#compdef plumbc\n"
        "_plumbc() {\n"
        "  if ((CURRENT == 2)); then\n"
        "    compadd "
     << nameAll(app)
     << "\n"
        "    return\n"
        "  fi\n"
        "  case $words[2] in\n";
  for (const CLI::App *sub : app.get_subcommands([](const CLI::App *) { return true; }))
    os << "  " << sub->get_name() << ") compadd -- " << join(optionsOf(sub)) << " ;;\n";
  os << "  esac\n"
        "  _files\n"
        "}\n"
        "compdef _plumbc plumbc\n";
}

void plumb::addCompletionCommand(CLI::App &app, Command &command) {
  auto shell = std::make_shared<std::string>();
  CLI::App *sub = app.add_subcommand("completion", "Print what makes a shell complete the words of plumbc");
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  sub->callback([shell, &app, &command] {
    command = [shell, &app] {
      if (*shell == "bash")
        printBash(app, std::cout);
      else if (*shell == "zsh")
        printZsh(app, std::cout);
      else
        printFish(app, std::cout);
      return static_cast<int>(kSuccess);
    };
  });
}

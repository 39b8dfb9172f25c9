"""Jinja2 templates in spec files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from jinja2 import Template, TemplateError, TemplateSyntaxError, UndefinedError, nodes

from model.text.composer import Resolver
from model.text.documents import Document, whole_line_span
from model.text.files import display_name
from model.text.line_marks import LineMarks
from model.text.sandbox import ForeignStatementError, SpecEnvironment
from model.text.session import Scope, Session
from model.text.source import Node, SourceText, Span, SpecError, did_you_mean
from model.text.template_functions import IncludedTrees, TemplateFunctions

_UNDEFINED_NAME = re.compile(r"'(\w+)' is undefined")
_KEEPING = (nodes.AssignBlock, nodes.CallBlock, nodes.FilterBlock, nodes.Macro)
_TOO_COMPLEX = (RecursionError, MemoryError, SyntaxError)
_FAILURES = (
    *(TemplateError, ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RuntimeError, TypeError, ValueError),
)


class TemplateEngine:
    """Renders the template of one document, with the files that are spliced into it.

    Parameters
    ----------
    session
        What is left of the limits; takes the names that templates use.
    load
        Returns the tree of an included file.
    """

    def __init__(self, session: Session, load: Callable[[Scope], Node]) -> None:
        self._session = session
        self._load = load
        self._environment = SpecEnvironment(session)
        self._marks = LineMarks()
        self._trees = IncludedTrees()

    def render(self, text: str, scope: Scope) -> tuple[Document, Resolver]:
        """Return the rendered document, and what finds the trees that stand in it as tags.

        Raises
        ------
        SpecError
            For template errors, files that cannot be included, and work or text beyond the limits.
        """
        marked = self._rendered(text, scope)
        return self._marks.document(display_name(scope.path), marked), self._trees.resolve

    def _rendered(self, text: str, scope: Scope) -> str:
        """Return the rendered text with marks of where its lines come from."""
        source = SourceText.of(display_name(scope.path), text)
        first = self._marks.register(scope.path, source)
        functions = TemplateFunctions(scope, self._session, self._trees, self._load, self._spliced)
        try:
            self._session.check_template(self._environment.compiled_sizes(text), scope.path)
            template = self._compiled(text, source.name, first, functions.by_name)
            return self._marks.mark(first) + "".join(template.generate(**scope.variables))
        except SpecError as error:
            raise error.included_at(_failing_line(error, source)) from None
        except ForeignStatementError as error:
            raise SpecError(str(error), whole_line_span(source, error.line)) from None
        except TemplateSyntaxError as error:
            raise SpecError(f"template: {error.message}", whole_line_span(source, error.lineno)) from None
        except UndefinedError as error:
            known = (*scope.variables, *functions.by_name, *self._environment.globals)
            hint = _undefined_hint(str(error), tuple(scope.variables), known)
            raise SpecError(f"template: {error}", _failing_line(error, source), hint=hint) from None
        except NameError as error:
            # Jinja2 compiles an infinite constant to the name `inf`, which nothing defines.
            raise SpecError("template: a number is not finite", _failing_line(error, source)) from None
        except _TOO_COMPLEX as error:
            raise SpecError("template: nested too deep", _failing_line(error, source)) from None
        except _FAILURES as error:
            raise SpecError(f"template: {error}", _failing_line(error, source)) from None

    def _spliced(self, scope: Scope) -> str:
        return self._rendered(self._session.read(scope.path), scope)

    def _compiled(
        self, text: str, name: str, first: int, functions: Mapping[str, Callable[..., object]]
    ) -> Template:
        environment = self._environment
        tree = environment.parse(text, name, name)
        self._session.names.update(used.name for used in tree.find_all(nodes.Name))
        environment.instrument(tree)
        self._mark_lines(tree, first)
        code = environment.compile(tree, name, name)
        return Template.from_code(environment, code, environment.make_globals(dict(functions)))

    def _mark_lines(self, tree: nodes.Template, first: int) -> None:
        """Mark the lines of a parsed template; text that is kept in a variable keeps its start as it is."""
        kept = {id(data) for block in tree.find_all(_KEEPING) for data in block.find_all(nodes.TemplateData)}
        for data in tree.find_all(nodes.TemplateData):
            number = first + data.lineno - 1
            start = "" if id(data) in kept else self._marks.mark(number)
            data.data = start + self._marks.marked(data.data, number)


def _failing_line(error: BaseException, source: SourceText) -> Span:
    """Return the innermost template line in an error's traceback, which Jinja2 puts there."""
    line = 1
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == source.name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return whole_line_span(source, line)


def _undefined_hint(message: str, given: tuple[str, ...], known: tuple[str, ...]) -> str | None:
    """Return what may be meant by a name; the slip may lie where one is given."""
    match = _UNDEFINED_NAME.search(message)
    if match is None:
        return None
    name = match.group(1)
    slip = did_you_mean(name, given)
    if slip is not None:
        return f"{slip} that is the name that has a value"
    return did_you_mean(name, known) or f"give it a value with `--set {name}=VALUE`"

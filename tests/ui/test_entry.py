"""The ways in: set-up of a fresh store up to the first upload, login, sessions that end."""

from pathlib import Path

from playwright.sync_api import Browser, FilePayload, Route, expect

from graveler.http.service import ServiceSettings
from tests.api.serving import ADMINISTRATOR, ANY_NUMBER, Served, served
from tests.ui.scene import Scene, person, scene

TOKEN = "token-of-this-store-0123456789"


def _log_in(shown: Scene, secret: str, id: str = ADMINISTRATOR.access_key_id) -> None:
    shown.page.get_by_label("Access key id").fill(id)
    shown.page.get_by_label("Secret access key").fill(secret)
    shown.page.get_by_role("button", name="Log in").click()


def test_a_fresh_store_leads_to_the_first_upload(browser: Browser, tmp_path: Path) -> None:
    settings = ServiceSettings(failed_logins=ANY_NUMBER, setup_token=TOKEN)
    with (
        served(tmp_path / "store", settings=settings, administrator=False) as fresh,
        scene(browser, fresh, logged_in=False) as shown,
    ):
        page = shown.open("/")
        expect(page.get_by_role("heading", name="Set up Graveler")).to_be_visible()
        page.get_by_label("Set-up token").fill("wrong")
        page.get_by_role("button", name="Create the administrator").click()
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Set-up token").fill(TOKEN)
        page.get_by_role("button", name="Create the administrator").click()
        expect(page.get_by_text("The secret is shown only now")).to_be_visible()
        page.get_by_role("button", name="Log in with this key").click()
        expect(page.get_by_label("I have kept the key")).to_be_focused()  # the browser says why
        page.get_by_label("I have kept the key").check()
        page.get_by_role("button", name="Log in with this key").click()
        dialog = page.get_by_role("dialog", name="New repository")
        dialog.get_by_label("Name", exact=True).fill("lake")
        expect(dialog.get_by_label("Storage namespace")).to_have_value("local://lake")
        dialog.get_by_role("button", name="Create the repository").click()
        expect(page.get_by_role("heading", name="This branch is empty")).to_be_visible()
        file: FilePayload = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"}
        page.get_by_label("Files to upload").set_input_files(file)
        expect(page.get_by_role("link", name="a.csv", exact=True)).to_be_visible()
        expect(page.get_by_text("Uncommitted changes", exact=True)).to_be_visible()


def test_login_comes_back_to_the_page_that_was_asked_for(
    browser: Browser, live: Served, repo: str
) -> None:
    with scene(browser, live, logged_in=False) as shown:
        page = shown.open(f"/repositories/{repo}/commits", ref="main")
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        _log_in(shown, "wrong")
        expect(page.get_by_role("alert")).to_contain_text("request id")
        _log_in(shown, ADMINISTRATOR.secret_access_key)
        expect(page.get_by_role("link", name="Log of March")).to_be_visible()
        assert page.url.endswith(f"/repositories/{repo}/commits?ref=main")


def test_what_was_refused_before_a_login_does_not_count_after_it(
    browser: Browser, live: Served, repo: str
) -> None:
    held: list[Route] = []
    with scene(browser, live, logged_in=False) as shown:
        page = shown.page
        page.route("**/assets/commits.js", lambda route: held.append(route), times=1)
        page.goto(f"{live.client.url}/repositories/{repo}/commits?ref=main")  # preloads its list
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        held[0].continue_()
        _log_in(shown, ADMINISTRATOR.secret_access_key)
        expect(page.get_by_role("link", name="Log of March")).to_be_visible()


def test_a_login_leads_to_no_other_site(browser: Browser, live: Served) -> None:
    with scene(browser, live, logged_in=False) as shown:
        for target in (
            "//evil.example/",
            "https://evil.example",
            "/\\evil.example",
            "javascript:1",
            "/.//evil.example",
            "/x/..//evil.example",
            "/%2e//evil.example",
        ):
            shown.open("/auth/login", next=target)
            _log_in(shown, ADMINISTRATOR.secret_access_key)
            expect(shown.page.get_by_role("heading", name="Repositories")).to_be_visible()
            assert shown.page.url.startswith(live.client.url + "/")
            shown.page.context.clear_cookies()


def test_a_session_that_ends_leads_to_the_login_and_back(
    browser: Browser, live: Served, repo: str
) -> None:
    with scene(browser, live) as shown:
        page = shown.open(f"/repositories/{repo}/objects", ref="main")
        page.context.clear_cookies()
        page.get_by_role("link", name="Branches", exact=True).click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        _log_in(shown, ADMINISTRATOR.secret_access_key)
        expect(page.get_by_role("link", name="prices", exact=True)).to_be_visible()


def test_nothing_of_the_user_before_is_shown_after_a_logout(
    browser: Browser, live: Served, repo: str
) -> None:
    other = person(live.client, f"other-{repo}")
    with scene(browser, live) as shown:
        page = shown.open(f"/repositories/{repo}/objects", ref="main")
        expect(page.get_by_role("link", name="prices.csv", exact=True)).to_be_visible()
        page.get_by_label("User administrator").click()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        assert page.get_by_text("prices.csv").count() == 0
        _log_in(shown, other.secret_access_key, other.access_key_id)
        expect(page.get_by_role("alert")).to_contain_text("repository not found")
        assert page.get_by_text("prices.csv").count() == 0


def test_logout_ends_the_session(browser: Browser, live: Served, repo: str) -> None:
    with scene(browser, live) as shown:
        page = shown.open(f"/repositories/{repo}/objects", ref="main")
        page.get_by_label("User administrator").click()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in")).to_be_visible()
        assert not [cookie for cookie in page.context.cookies() if cookie.get("value")]
